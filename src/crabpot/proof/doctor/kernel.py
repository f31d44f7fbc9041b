"""The kernel: namespaces and what keeps them from ordinary users, filters, Landlock, AppArmor, control groups. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import remedy
from crabpot.proof.doctor.lines import Line, State, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.backends.linux.cgroup_hierarchy import Hierarchy

_AREA = "kernel"
# openat2, by which file tools stay beneath their roots.
_OLDEST = (5, 6)
# From here on the limit on processes counts in the sandbox's own user namespace.
_COUNTS_APART = (5, 14)
_DROP_IN = "/etc/systemd/system/user@.service.d"
_CPU_FOR_USERS = (
    f"sudo mkdir -p {_DROP_IN} && printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | "
    f"sudo tee {_DROP_IN}/delegate.conf && sudo systemctl daemon-reload, then log in again"
)
_CPU = "have the cpu controller delegated to it, too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """What the kernel says of itself."""

    release: str
    root: bool
    switches: Mapping[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    seccomp_actions: str = ""
    landlock: int = 0
    apparmor: bool = False
    hierarchy: Hierarchy | None = None
    core_pattern: str = ""
    libseccomp: bool = False
    # Whether some bwrap was seen to make a sandbox.
    sandboxes: bool = True


def look(kernel: Kernel) -> Iterator[Line]:
    """Judge a kernel."""
    yield _release(kernel)
    yield from _namespaces(kernel)
    yield _filters(kernel)
    says = "here" if kernel.libseccomp else "not here"
    yield Line(area=_AREA, name="libseccomp", state="ok", says=f"{says}; not needed, the filter is compiled without it")
    yield _landlock(kernel)
    yield _apparmor(kernel)
    yield _groups(kernel)
    if kernel.core_pattern.startswith("|"):
        says = f"a crash inside is handed to a program of the host ({kernel.core_pattern.split()[0][1:]})"
        fix = "sudo sysctl -w kernel.core_pattern=core"
        yield Line(area=_AREA, name="core dumps", state="warning", says=says, fix=fix)


def _release(kernel: Kernel) -> Line:
    version, name = version_of(kernel.release)[:2], "version"
    if version < _OLDEST:
        says = f"Linux {kernel.release} is too old for openat2, by which file tools stay beneath their roots"
        return Line(area=_AREA, name=name, state="problem", says=says, fix="use Linux 5.6 or newer")
    if version < _COUNTS_APART:
        says = f"Linux {kernel.release} counts a user's processes, not a sandbox's, where there is no control group"
        return Line(area=_AREA, name=name, state="warning", says=says, fix="use Linux 5.14 or newer")
    return Line(area=_AREA, name=name, state="ok", says=f"Linux {kernel.release}")


def _namespaces(kernel: Kernel) -> Iterator[Line]:
    missing = sorted({"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} - kernel.namespaces)
    if missing:
        says = f"this kernel was built without {', '.join(missing)} namespaces"
        yield Line(area=_AREA, name="namespaces", state="problem", says=says, fix="use a distribution's kernel")
    else:
        yield Line(area=_AREA, name="namespaces", state="ok", says="user, mount, pid, ipc, uts, net and cgroup")
    off = _blocked_by(kernel)
    if off is None and not kernel.sandboxes:
        says = "no setting of the kernel forbids them, but no bwrap made a sandbox: something else may"
        yield Line(area=_AREA, name="user namespaces", state="warning", says=says, fix="see bubblewrap, below")
    elif off is None:
        says = "an ordinary user may make them"
        if kernel.switches.get(remedy.APPARMOR) == "1":
            says = "kept from programs without an AppArmor profile, as Ubuntu sets it; bwrap has one"
        yield Line(area=_AREA, name="user namespaces", state="ok", says=says)
    elif off is not None:
        says, fix = off
        state: State = "warning" if kernel.root and kernel.switches.get(remedy.MAXIMUM) != "0" else "problem"
        yield Line(area=_AREA, name="user namespaces", state=state, says=says, fix=fix)


def _blocked_by(kernel: Kernel) -> tuple[str, str] | None:
    if kernel.switches.get(remedy.MAXIMUM) == "0":
        return "switched off for everybody (user.max_user_namespaces)", "sudo sysctl -w user.max_user_namespaces=15000"
    if kernel.switches.get(remedy.DEBIAN) == "0":
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
        return "kept for root, as Debian can set it (kernel.unprivileged_userns_clone)", fix
    # Root's sandboxes do not show what it keeps from others.
    if kernel.switches.get(remedy.APPARMOR) == "1" and (kernel.root or not kernel.sandboxes):
        says = "kept from programs without an AppArmor profile, as Ubuntu sets it"
        return says, remedy.PROFILE
    return None


def _filters(kernel: Kernel) -> Line:
    if "errno" in kernel.seccomp_actions.split():
        return Line(area=_AREA, name="seccomp", state="ok", says="filters system calls")
    says = "this kernel cannot filter system calls"
    return Line(area=_AREA, name="seccomp", state="problem", says=says, fix="use a distribution's kernel")


def _landlock(kernel: Kernel) -> Line:
    if kernel.landlock:
        says = f"version {kernel.landlock} of its interface"
        return Line(area=_AREA, name="Landlock", state="ok", says=says)
    says = "missing or not switched on: the second wall around files is missing, the first holds"
    fix = 'add "landlock" to the lsm= list of the kernel\'s command line'
    return Line(area=_AREA, name="Landlock", state="warning", says=says, fix=fix)


def _apparmor(kernel: Kernel) -> Line:
    if kernel.apparmor:
        says = "on: `crabpot render apparmor` prints a profile for docker.apparmor"
        return Line(area=_AREA, name="AppArmor", state="ok", says=says)
    says = "not in this kernel, or off: docker.apparmor cannot be used; no other promise depends on it"
    return Line(area=_AREA, name="AppArmor", state="ok", says=says)


def _groups(kernel: Kernel) -> Line:
    name, where = "control groups", kernel.hierarchy
    if where is None:
        says = "none that this user may make: memory is limited for each process alone, CPU time not at all"
        fix = (
            "run in a systemd user session (loginctl enable-linger), in a unit of `crabpot render systemd`, or as root"
        )
        return Line(area=_AREA, name=name, state="warning", says=says, fix=fix)
    by = "a systemd user scope" if where.scope else f"version {where.version}"
    controllers = ", ".join(sorted(where.folders))
    if not where.swap:
        says = f"{by} ({controllers}), but swap is not counted"
        return Line(
            area=_AREA, name=name, state="warning", says=says, fix="boot with swapaccount=1, or sudo swapoff -a"
        )
    if "cpu" not in where.folders:
        says = f"{by} ({controllers}), but without CPU time"
        return Line(area=_AREA, name=name, state="warning", says=says, fix=_CPU_FOR_USERS if where.scope else _CPU)
    return Line(area=_AREA, name=name, state="ok", says=f"{by} ({controllers})")
