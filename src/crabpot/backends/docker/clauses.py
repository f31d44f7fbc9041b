"""How this engine keeps each clause of a spec: enforced, degraded (and how), or refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.backends.base import NETWORKS, Clause, Row, State, second_wall, tmp
from crabpot.backends.docker.image import Image
from crabpot.backends.docker.render import gvisor_threads
from crabpot.backends.linux.limits import amount, sized
from crabpot.layers import layer as layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.docker.facts import Facts
    from crabpot.backends.docker.user import Choice
    from crabpot.spec.spec import SandboxSpec


_NETWORKS: dict[str, tuple[State, str]] = {
    **NETWORKS,
    "bridge": ("enforced", "docker's bridge, as configured: it reaches the internet, and on most machines the LAN too"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found out for one spec. A sentence in place of a value says why there is none."""

    facts: Facts | str
    image: Image | str = ""
    choice: Choice | None = None
    network: str | None = None
    seccomp: str | None = None
    disk: str | None = None


def clauses(spec: SandboxSpec, found: Findings) -> tuple[Clause, ...]:
    """Return the table that explain, doctor and the audit log show."""
    return tuple(Clause(name=name, state=state, how=how) for name, state, how in _all(spec, found))


def _all(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    facts = found.facts
    if isinstance(facts, str):
        yield "sandbox", "refused", facts
        return
    yield _sandbox(spec, facts)
    if isinstance(found.image, Image):
        yield "image", "enforced", f"{found.image.name} ({found.image.id[:19]})"
    else:
        yield "image", "refused", found.image
    if found.choice is not None:
        user = found.choice.user
        who = "" if user is None else f"{user.uid}:{user.gid}, "
        yield "user", "refused" if user is None else "enforced", f"{who}{found.choice.because}"
    yield from _walls(spec, facts, found)
    yield _network(spec, found)
    if spec.layer is not None:
        yield _review(spec.layer)
    yield _binds(spec, facts)
    yield from _counted(spec, facts)
    yield from _wished(spec, facts, found)
    yield from sized(spec.limits, reviewed=spec.layer is not None)


def _review(layer: str) -> Row:
    found = layers.read(layer)
    if found is not None and found.mechanism != "copy":
        do = f"crabpot changes apply|discard --session {found.session}, or use the bubblewrap backend"
        return "workspace", "refused", f"this session's changes are in an overlay, which no engine mounts: {do}"
    return "workspace", "enforced", "copy: changes go to a copy of the host's folder (an engine mounts no overlay)"


def _sandbox(spec: SandboxSpec, facts: Facts) -> Row:
    if facts.os_type != "linux":
        return "sandbox", "refused", f"this engine makes {facts.os_type} containers: switch it to Linux ones"
    runtime = spec.docker.runtime
    if runtime is not None and runtime not in facts.runtimes:
        known = ", ".join(sorted(facts.runtimes))
        return (
            "sandbox",
            "refused",
            f'this engine has no runtime "{runtime}" (it has {known}): add it to its daemon.json',
        )
    kind = "rootless engine" if facts.rootless else "engine"
    return "sandbox", "enforced", f"{kind} {facts.version} at {facts.socket}, runtime {runtime or 'by default'}"


def _walls(spec: SandboxSpec, facts: Facts, found: Findings) -> Iterator[Row]:
    if facts.remapped:
        yield "namespaces", "enforced", "user, mount, pid, ipc, uts and cgroup of its own"
    else:
        missing = "no user namespace: this engine maps no users (rootless, or userns-remap in its daemon.json, would)"
        yield "namespaces", "degraded", f"mount, pid, ipc, uts and cgroup of its own, but {missing}"
    seen = "; read from outside" if _is_looked_at(spec, facts) else ""
    yield "capabilities", "enforced", f"none, in no set (cap-drop ALL{seen})"
    yield "no-new-privileges", "enforced", f"set by the engine{seen}"
    gvisor = spec.docker.runtime in facts.gvisor
    if found.seccomp is not None:
        yield "seccomp", "refused", found.seccomp
    elif gvisor:
        yield "seccomp", "degraded", "no list: gVisor takes every system call itself, in a kernel that is not this one"
    elif "seccomp" not in facts.security:
        yield "seccomp", "refused", "this engine was built without seccomp: use another, or the bubblewrap backend"
    else:
        which = "allow-list" if spec.docker.seccomp == "default" else f"as configured, {spec.docker.seccomp}"
        yield "seccomp", "enforced", which
    profile = spec.docker.apparmor
    if "apparmor" in facts.security:
        yield "apparmor", "enforced", profile or "the engine's own profile"
    elif profile is not None:
        yield "apparmor", "refused", f"this engine has no AppArmor for the profile {profile}: remove docker.apparmor"
    if gvisor:
        yield "filesystem", "degraded", "the image read-only; passwd and group of its own; gVisor's /proc, not masked"
        how = "programs in it can be run, as configured (tmpExec)" if spec.tmp_exec else "noexec"
        yield "tmp", "degraded", f"private, sized, {how}; gVisor knows no nosuid or nodev"
    else:
        yield "filesystem", "enforced", "the image read-only; passwd and group of its own; /proc masked"
        yield tmp(spec)
    # Another kernel may lie in between, and a filter of one's own may not let the runner set it up.
    ours = spec.docker.runtime is None and spec.docker.seccomp == "default"
    yield second_wall(facts.landlock if ours else 0)


def _is_looked_at(spec: SandboxSpec, facts: Facts) -> bool:
    """Return whether this machine's kernel shows a container's processes: not those of gVisor, Kata or a VM."""
    return spec.docker.runtime is None and facts.same_kernel


def _network(spec: SandboxSpec, found: Findings) -> Row:
    if found.network is not None:
        return "network", "refused", found.network
    if spec.network.kind == "named":
        return "network", "enforced", f"docker's network {spec.network.name}, as configured: everything that it reaches"
    state, how = _NETWORKS[spec.network.kind]
    return "network", state, how


def _binds(spec: SandboxSpec, facts: Facts) -> Row:
    for mount in spec.mounts:
        if facts.socket == mount.source or facts.socket.startswith(f"{mount.source.rstrip('/')}/"):
            return "binds", "refused", f"{mount.source} contains the engine's socket, which gives away the whole host"
    if spec.docker.runtime is not None or not facts.same_kernel:
        return (
            "binds",
            "degraded",
            "by path: a folder that is swapped for a link while the container starts is not noticed",
        )
    return "binds", "enforced", "by path, and compared afterwards"


def _counted(spec: SandboxSpec, facts: Facts) -> Iterator[Row]:
    limits, by = spec.limits, f"({facts.cgroups})"
    total = amount(limits.memory)
    if not facts.counts.get("MemoryLimit"):
        yield (
            "limits.memory",
            "degraded",
            "not limited: this engine cannot (its control groups lack the memory controller)",
        )
    elif not facts.counts.get("SwapLimit"):
        yield "limits.memory", "degraded", f"{total} {by}, but this kernel does not count swap"
    else:
        yield "limits.memory", "enforced", f"{total}, swap included {by}"
    for key, name, value in (("CpuCfsQuota", "cpus", f"{limits.cpus:g}"), ("PidsLimit", "pids", str(limits.pids))):
        if name == "pids" and spec.docker.runtime in facts.gvisor:
            most = gvisor_threads(spec)
            yield (
                "limits.pids",
                "degraded",
                f"{most} threads of gVisor's, which ends beyond that; threads inside are not counted",
            )
        elif facts.counts.get(key):
            yield f"limits.{name}", "enforced", f"{value} {by}"
        else:
            yield f"limits.{name}", "degraded", f"not limited: this engine's control groups lack the {name} controller"


def _wished(spec: SandboxSpec, facts: Facts, found: Findings) -> Iterator[Row]:
    """Yield the clauses that only apply where they are configured."""
    limits, by = spec.limits, f"({facts.cgroups})"
    if limits.memory_reservation is not None:
        yield "limits.memoryReservation", "enforced", f"{amount(limits.memory_reservation)} {by}"
    if limits.cpu_shares is not None:
        yield "limits.cpuShares", "enforced", f"{limits.cpu_shares} {by}"
    if limits.io.read is not None or limits.io.write is not None:
        if found.disk is None:
            yield (
                "limits.io",
                "degraded",
                "not limited: the workspace is on no disk of its own that an engine could limit",
            )
        elif facts.cgroups == "cgroup v1":
            yield "limits.io", "degraded", f"on {found.disk}, without writes through the page cache {by}"
        else:
            yield "limits.io", "enforced", f"on {found.disk} {by}"
