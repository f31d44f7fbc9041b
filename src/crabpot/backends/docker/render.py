"""From spec and facts to the body of a create request. Pure: no engine is contacted, and nothing is looked up."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker import owner
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import Size
    from crabpot.spec.spec import Access, SandboxSpec, User

HOSTNAME = "crabpot"
RUNNER = f"{hardening.RUNNER}/runner"
TMP, VAR_TMP = "/tmp", "/var/tmp"  # noqa: S108  names inside the sandbox

# Beyond /proc: what the engine hides by itself, named because our list replaces its own; and the cgroups, whose v1
# hierarchy is mounted on a writable tmpfs.
_MASKED = (*hardening.MASKED_PROC, "/sys/firmware", "/sys/devices/virtual/powercap", "/sys/fs/cgroup")
# The engine's /dev is a tmpfs that its owner, root, could write; devices, terminals and shared memory stay usable.
_READ_ONLY = (*hardening.READ_ONLY_PROC, "/dev")
_BYTES_PER_INODE = 4096
_FEWEST_INODES = 1024
# The engine's own bounds for cpus; to the kernel, shares below two mean its default.
_FEWEST_CPUS, _FEWEST_SHARES = 0.01, 2
_NANO = 10**9
_GVISOR_OWN, _GVISOR_EACH = 256, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder of the host, mounted at a path inside."""

    source: str
    target: str
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """The facts that a container is made from."""

    image_id: str
    interpreter: str
    user: User
    binds: tuple[Bind, ...]
    seccomp: str
    """The profile itself, as JSON: the engine's API reads no files."""
    cpus: int
    """How many the machine has: the engine refuses a limit above that."""
    apparmor: str | None = None
    disk: str | None = None
    """The device that I/O limits apply to."""
    image_env: tuple[str, ...] = ()
    image_volumes: tuple[str, ...] = ()
    gvisor: bool = False
    """Whether the runtime is a kernel of its own, whose threads the engine counts as the container's."""
    labels: Mapping[str, str] = field(default_factory=dict)


def labels(spec: SandboxSpec, *, owned_by: str, state: str) -> dict[str, str]:
    """Return the labels that say whose container it is, and which sandbox."""
    return {owner.OWNER: owned_by, owner.SCOPE: spec.scope_key, owner.HASH: spec.hash, owner.STATE: state}


def create_body(spec: SandboxSpec, plan: ContainerPlan) -> dict[str, Any]:
    """Describe the container whose main process is the runner, and whose standard streams are the wire."""
    return {
        **_walled(plan, [plan.interpreter, "-I", "-S", f"{RUNNER}/__main__.py"]),
        "WorkingDir": spec.workspace_at,
        # The runner ends with its stream: once the attached client is gone, so is the container's standard input.
        "StdinOnce": True,
        "AttachStdin": True,
        "HostConfig": {**_host_config(spec, plan), "NetworkMode": network_mode(spec)},
    }


def probe_body(spec: SandboxSpec, plan: ContainerPlan, script: str) -> dict[str, Any]:
    """Describe a container that probes an image's interpreter: the same walls, and no folder of an agent's."""
    return {
        **_walled(plan, [plan.interpreter, "-I", "-S", "-c", script]),
        "WorkingDir": "/",
        # There is no wire here to protect; and an init reports an interpreter that does not exist.
        "HostConfig": {**_host_config(spec, plan), "NetworkMode": "none", "Init": not plan.gvisor},
    }


def _walled(plan: ContainerPlan, command: list[str]) -> dict[str, Any]:
    return {
        "Image": plan.image_id,
        # Entrypoint rather than Cmd: an image's own entrypoint would run first, and see the wire.
        "Entrypoint": command,
        "Cmd": [],
        "User": f"{plan.user.uid}:{plan.user.gid}",
        "Hostname": HOSTNAME,
        # A bare name removes a variable of the image; the runner gets what it passes on by the wire.
        "Env": sorted(set(plan.image_env) - {"PATH"}),
        # The engine would run an image's health check beside the runner, again and again.
        "Healthcheck": {"Test": ["NONE"]},
        "Tty": False,
        # A container without standard input gets the host's /dev/null, and gVisor makes what it gets nobody's own.
        "OpenStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Labels": dict(plan.labels),
    }


def _host_config(spec: SandboxSpec, plan: ContainerPlan) -> dict[str, Any]:
    walled = walls(spec, seccomp=plan.seccomp, apparmor=plan.apparmor)
    return {
        **walled,
        **limits(spec, cpus=plan.cpus, disk=plan.disk),
        "Mounts": [mount(bind) for bind in plan.binds],
        "MaskedPaths": list(_MASKED),
        "ReadonlyPaths": list(_READ_ONLY),
        # The output is the wire; an engine's log of it would fill a disk with what an agent reads.
        "LogConfig": {"Type": "none", "Config": {}},
        # The second safeguard, after the watchdog: the engine itself removes what ended.
        "AutoRemove": True,
        "RestartPolicy": {"Name": "no"},
        # The runner is pid 1 and reaps orphans itself. An init before it would hold the same pipes and be dumpable:
        # whatever runs inside could write to /proc/1/fd/1, which is the wire.
        "Init": False,
        "Tmpfs": {**_in_place_of_volumes(plan), **walled["Tmpfs"], VAR_TMP: walled["Tmpfs"][TMP]},
        # Room for gVisor's own threads, which the engine counts as the container's.
        **({"PidsLimit": gvisor_threads(spec)} if plan.gvisor else {}),
    }


def gvisor_threads(spec: SandboxSpec) -> int:
    """Return how many threads gVisor may have: a few per thread that it runs. One more, and the sandbox ends."""
    return _GVISOR_OWN + _GVISOR_EACH * spec.limits.pids


def walls(spec: SandboxSpec, *, seccomp: str, apparmor: str | None) -> dict[str, Any]:
    """Return the walls of a live sandbox and of a rendered container alike, as the engine's API spells them."""
    options = ["no-new-privileges", f"seccomp={seccomp}"]
    if apparmor is not None:
        options.append(f"apparmor={apparmor}")
    made: dict[str, Any] = {
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "SecurityOpt": options,
        "ReadonlyRootfs": True,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Init": True,
        "Tmpfs": {TMP: tmpfs(spec.limits.tmp, runs=spec.tmp_exec)},
        "ShmSize": int(spec.limits.tmp),
    }
    if spec.docker.runtime is not None:
        made["Runtime"] = spec.docker.runtime
    return made


def tmpfs(size: Size, *, runs: bool = False) -> str:
    """Return the options of a folder in memory, writable by all and bounded in bytes and in files.

    `runs`: programs in it can be run.
    """
    inodes = max(size // _BYTES_PER_INODE, _FEWEST_INODES)
    return f"rw,{'exec' if runs else 'noexec'},nosuid,nodev,size={size.written()},nr_inodes={inodes},mode=1777"


def _in_place_of_volumes(plan: ContainerPlan) -> dict[str, str]:
    """Cover the volumes that an image declares: the engine would make them writable, on disk and under no limit."""
    taken = {bind.target for bind in plan.binds}
    return {path: "ro,noexec,nosuid,nodev,size=4096" for path in plan.image_volumes if path not in taken}


def network_mode(spec: SandboxSpec) -> str:
    """Return the network as the engine names it; traffic through the gateway needs none of the engine's."""
    if spec.network.kind == "named":
        return spec.network.name
    return "none" if spec.network.proxied else spec.network.kind


def limits(spec: SandboxSpec, *, cpus: float, disk: str | None) -> dict[str, Any]:
    """Return what a container may use. `cpus` is the most available, `disk` the device that I/O limits apply to."""
    limits = spec.limits
    made: dict[str, Any] = {
        "Memory": int(limits.memory),
        "MemorySwap": int(limits.memory),
        "NanoCpus": int(min(max(limits.cpus, _FEWEST_CPUS), cpus) * _NANO),
        "PidsLimit": limits.pids,
        "Ulimits": [
            {"Name": name, "Soft": most, "Hard": most}
            for name, most in (("nofile", limits.open_files), ("fsize", int(limits.file_size)), ("core", 0))
        ],
    }
    if limits.memory_reservation is not None:
        made["MemoryReservation"] = int(min(limits.memory_reservation, limits.memory))
    if limits.cpu_shares is not None:
        made["CpuShares"] = max(limits.cpu_shares, _FEWEST_SHARES)
    for key, rate in (("BlkioDeviceReadBps", limits.io.read), ("BlkioDeviceWriteBps", limits.io.write)):
        if rate is not None and disk is not None:
            made[key] = [{"Path": disk, "Rate": int(rate)}]
    return made


def mount(bind: Bind) -> dict[str, Any]:
    """Return one bind as the engine takes it."""
    read_only = bind.access == "ro"
    return {
        "Type": "bind",
        "Source": bind.source,
        "Target": bind.target,
        "ReadOnly": read_only,
        # Before API 1.44 "read-only" does not reach what is mounted below the source; so that is left out there.
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": read_only},
    }


def seccomp_text(profile: Mapping[str, object]) -> str:
    """Return a profile as the engine takes it, and as a test can compare it."""
    return json.dumps(profile, separators=(",", ":"), sort_keys=True)
