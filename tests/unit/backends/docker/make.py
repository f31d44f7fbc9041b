"""Specs to open, and what the pure parts are fed with: what the tests of docker share."""

from __future__ import annotations

import dataclasses
from typing import Any

from crabpot.backends.docker.facts import Facts
from crabpot.settings import Docker, Limits
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import SandboxSpec

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace", "USER": "agent", "LANG": "C.UTF-8"}

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


def make_spec(**changes: Any) -> SandboxSpec:
    """Describe an ordinary sandbox with a private workspace, but for what is changed."""
    ordinary = SandboxSpec(
        scope_key="agent:main:test",
        name="crabpot-agent-main-test-0123abcd",
        backend="docker",
        workspace="/state/sandboxes/crabpot-agent-main-test-0123abcd",
        private=True,
        agent_workspace=None,
        mounts=(),
        user=None,
        network=NetworkSpec(kind="none"),
        env=ENV,
        limits=Limits(),
        docker=Docker(),
        socket=None,
        host_commands=(),
    )
    return dataclasses.replace(ordinary, **changes)
