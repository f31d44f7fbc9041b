"""What can be known of each clause when somebody else started the runner: little, and that is reported. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.backends.base import Clause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.backends.base import Row
    from crabpot.spec.spec import SandboxSpec

_UNKNOWN = "not known here: who started the runner confines it"
_NO_CAPABILITY = "0" * 16
_FILTERED = "2"
_USUAL_ENV = ("PATH", "HOME", "USER", "LANG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the runner says of itself (roots, commands) and what the kernel says of it."""

    path: str
    uid: int
    gid: int
    roots: tuple[str, ...]
    commands: tuple[str, ...]
    seen: Mapping[str, str]


def unavailable(why: str) -> tuple[Clause, ...]:
    """Return the one clause that matters if there is no runner."""
    return (Clause(name="sandbox", state="refused", how=why),)


def clauses(spec: SandboxSpec, found: Findings) -> tuple[Clause, ...]:
    """Return the table that explain, doctor and the audit log show."""
    return tuple(Clause(name=name, state=state, how=how) for name, state, how in _all(spec, found))


def _all(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    shown = ", ".join(found.roots) or "it names no roots"
    yield "sandbox", "enforced", f"the runner at {found.path}; roots: {shown}"
    if spec.layer is None:
        yield "workspace", "degraded", "every session works in the runner's own roots, whatever `workspace` says"
    else:
        yield (
            "workspace",
            "refused",
            "a runner that was started elsewhere has no layer: use another backend",
        )
    yield _commands(found)
    yield _user(spec, found)
    yield _namespaces(found)
    yield _network(spec, found)
    yield from _walls(found)
    yield "filesystem", "degraded", "file tools and listed commands stay within the roots; the rest is " + _UNKNOWN
    yield _binds(spec)
    if spec.host_commands:
        yield "hostCommands", "refused", "a runner that was started elsewhere has no shims: remove hostCommands"
    yield from _environment(spec, found)
    for name in ("memory", "cpus", "pids", "openFiles", "fileSize", "tmp", "disk"):
        yield f"limits.{name}", "degraded", _UNKNOWN
    yield "limits.timeLimit", "enforced", f"{spec.limits.time_limit:g} s, then the call's whole tree is killed"


def _commands(found: Findings) -> Row:
    if "sh" in found.commands:
        return "commands", "degraded", "sh is in the runner's list, so exec runs anything"
    listed = ", ".join(found.commands) or "it names none"
    return "commands", "enforced", f"exec runs one simple command of the runner's list: {listed}"


def _user(spec: SandboxSpec, found: Findings) -> Row:
    who = f"{found.uid}:{found.gid}, according to the kernel"
    if spec.user is not None and (spec.user.uid, spec.user.gid) != (found.uid, found.gid):
        wanted = f"{spec.user.uid}:{spec.user.gid}"
        return "user", "refused", f"the runner is {who}, not {wanted}: start it as that user, or remove `user`"
    if found.uid == 0:
        return "user", "degraded", "the runner is root: start it as the owner of its roots"
    return "user", "enforced", who


def _namespaces(found: Findings) -> Row:
    own = [name for name in ("user", "mnt", "pid", "ipc", "uts", "cgroup") if _seen(found, name) == "its own"]
    shared = [name for name in ("user", "mnt", "pid", "ipc", "uts", "cgroup") if _seen(found, name) == "shared"]
    if not own and not shared:
        return "namespaces", "degraded", _UNKNOWN
    if not shared:
        return "namespaces", "enforced", f"{', '.join(own)} of its own, read from outside"
    return "namespaces", "degraded", f"it shares the gateway's: {', '.join(shared)}"


def _network(spec: SandboxSpec, found: Findings) -> Row:
    if spec.network.kind in ("internet", "allow"):
        how = 'goes through the gateway, and a runner that was started elsewhere has no way there: write "none"'
        return "network", "refused", f'network "{spec.network.kind}" {how}'
    seen = _seen(found, "net")
    if spec.network.kind == "none" and seen == "shared":
        return "network", "degraded", "the runner has the gateway's own network: start it in a container without one"
    if seen == "its own":
        return "network", "degraded", "a network namespace of its own, read from outside; what it reaches is not known"
    return "network", "degraded", _UNKNOWN


def _walls(found: Findings) -> Iterator[Row]:
    seen = found.seen
    outside = "read from outside"
    if not seen:
        for name in ("capabilities", "no-new-privileges", "seccomp"):
            yield name, "degraded", _UNKNOWN
        return
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    none = all(seen.get(name) == _NO_CAPABILITY for name in sets)
    yield "capabilities", "enforced" if none else "degraded", f"none, in no set ({outside})" if none else "it has some"
    bound = seen.get("NoNewPrivs") == "1"
    yield "no-new-privileges", "enforced" if bound else "degraded", f"set ({outside})" if bound else "not set"
    filtered = seen.get("Seccomp") == _FILTERED
    what = f"a filter is loaded ({outside}); whose is not known" if filtered else "no filter is loaded"
    yield "seccomp", "degraded", what


def _binds(spec: SandboxSpec) -> Row:
    if spec.mounts:
        how = "a runner that was started elsewhere sees what it was given: mount it there, and remove binds"
        return "binds", "refused", how
    return "binds", "enforced", "none"


def _environment(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    added = [name for name in spec.env if name not in _USUAL_ENV]
    if added and "sh" not in found.commands:
        how = f"listed commands have the runner's own environment; {', '.join(sorted(added))} is not passed"
        yield "env", "degraded", how


def _seen(found: Findings, namespace: str) -> str:
    return found.seen.get(f"{namespace} namespace", "")
