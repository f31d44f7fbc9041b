"""What the pure parts are told of an engine."""

from __future__ import annotations

from crabpot.backends.docker.facts import Facts

FACTS = Facts(
    version="20.10.24",
    socket="/run/docker.sock",
    security=frozenset({"seccomp", "apparmor"}),
    cgroups="cgroup v2",
    cpus=4,
    counts=dict.fromkeys(
        ("MemoryLimit", "SwapLimit", "CpuCfsQuota", "PidsLimit", "CPUShares", "MemoryReservation"), True
    ),
    runtimes=frozenset({"runc", "runsc"}),
    landlock=7,
)
