"""How this machine keeps each clause of a spec: enforced, degraded (and how), or refused. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from crabpot.backends.base import NETWORKS, Clause, Row, State, second_wall, tmp
from crabpot.backends.bubblewrap import render
from crabpot.backends.linux.limits import amount, sized
from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.backends.bubblewrap.overlay import Review
    from crabpot.backends.bubblewrap.render import Program
    from crabpot.backends.bubblewrap.user import Choice
    from crabpot.backends.linux.cgroup_hierarchy import Hierarchy
    from crabpot.spec.spec import SandboxSpec

# From here on RLIMIT_NPROC counts per user namespace; before, it counted all that the user runs on the host.
NAMESPACED_COUNT = (5, 14)

_NETWORKS: dict[str, tuple[State, str]] = {
    **NETWORKS,
    "bridge": (
        "refused",
        'network "bridge" is docker\'s: write "internet" for public addresses without the LAN, or backend: "docker"',
    ),
    "named": ("refused", 'a network of docker\'s own needs backend: "docker"'),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found out about the machine for one spec."""

    choice: Choice
    program: Program | str
    bwrap: str
    interpreter: str
    # Why each other bwrap is not used, by its path.
    passed_over: Mapping[str, str] = field(default_factory=dict)
    hierarchy: Hierarchy | None
    kernel: tuple[int, int]
    landlock: int
    # What is shown for the interpreter, where that is not under /usr.
    prefix: str | None = None
    # The groups beside the user's own that a sandbox stays a member of.
    groups: tuple[str, ...] = ()
    # The disk that the workspace lies on, as major:minor, where a limit is about it and the kernel can limit it.
    disk: str | None = None
    # How the folder is put under review, where it is.
    review: Review | None = None

    @property
    def forks(self) -> bool:
        """Return whether a fork server makes it: not where systemd makes the control group around what it starts."""
        forks = not isinstance(self.program, str) and self.program.forks
        return forks and (self.hierarchy is None or self.hierarchy.scope is None)


def clauses(spec: SandboxSpec, found: Findings) -> tuple[Clause, ...]:
    """Return the table that explain, doctor and the audit log show."""
    return tuple(Clause(name=name, state=state, how=how) for name, state, how in _all(spec, found))


def _all(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    if isinstance(found.program, str):
        yield "sandbox", "refused", found.program
        return
    instead = "".join(f"; not {path}: {reason}" for path, reason in found.passed_over.items())
    maker = f"a fork server, or {found.bwrap}" if found.forks else found.bwrap
    yield "sandbox", "enforced", f"{maker}, {found.interpreter} inside{instead}"
    yield _user(found)
    yield "namespaces", "enforced", "user, mount, pid, ipc, uts and cgroup of its own"
    state, how = _NETWORKS[spec.network.kind]
    yield "network", "refused" if state == "refused" else "enforced", how
    yield from _walls(spec, found.program)
    yield second_wall(found.landlock)
    if found.review is not None:
        yield "workspace", "enforced", found.review.how
    yield from _binds(spec, found.program, found)
    yield from _counted(spec, found)
    yield from sized(spec.limits, reviewed=spec.layer is not None)


def _user(found: Findings) -> Row:
    user = found.choice.user
    if user is None:
        return "user", "refused", found.choice.because
    who = f"{user.uid}:{user.gid}, {found.choice.because}"
    if not found.groups:
        return "user", "enforced", who
    stays = (
        f"still of the groups {', '.join(found.groups)}, which are given up only by root's gateway, or where newgidmap "
        "(apt-get install uidmap) and a line in /etc/subgid allow it: what a sandbox sees, it may use by their rights"
    )
    return "user", "degraded", f"{who}; {stays}"


def _walls(spec: SandboxSpec, program: Program) -> Iterator[Row]:
    by = "applied from inside before the runner starts, and checked from outside" if program.seals else "by bwrap"
    yield "capabilities", "enforced", f"none, in no set ({by})"
    yield "no-new-privileges", "enforced", "set before anything of the agent's runs"
    yield "seccomp", "enforced", f"allow-list ({by})"
    yield "filesystem", "enforced", "read-only root, /usr and /dev; an /etc of its own; /proc masked"
    if program.seals or spec.tmp_exec:
        yield tmp(spec)
    else:
        yield (
            "tmp",
            "degraded",
            (
                "private, nosuid, nodev and sized, but programs in it can be run: this machine lets nothing "
                "that bwrap starts mount (AppArmor's profile for bwrap does that)"
            ),
        )


def _covers(target: str, prefix: str) -> bool:
    return f"{prefix}/".startswith(f"{target}/") or target.startswith(f"{prefix}/")


def _binds(spec: SandboxSpec, program: Program, found: Findings) -> Iterator[Row]:
    inside = render.nested(spec)
    if inside and program.mounting != "attach" and not program.safe_below_links:
        yield (
            "binds",
            "refused",
            (
                f"{', '.join(inside)} lies inside another bind, and this bwrap follows links planted there "
                "(CVE-2026-87766): bind it elsewhere, or update bubblewrap to 0.12"
            ),
        )
        return
    covering = [target for target in spec.targets if found.prefix and _covers(target, found.prefix)]
    if covering:
        # The agent's own files would be the interpreter that puts up the walls.
        how = f"{', '.join(covering)} would hide {found.prefix}, where the Python of the inside is: choose another"
        yield "binds", "refused", how
        return
    by_path = "by path, and compared afterwards"
    by_fd = "by descriptor: what was checked is what is mounted"
    yield "binds", "enforced", by_path if program.mounting == "path" else by_fd


def _counted(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    limits, where = spec.limits, found.hierarchy
    by = "" if where is None else ("a systemd scope" if where.scope else f"cgroup v{where.version}")
    has = frozenset() if where is None else frozenset(where.folders)
    total = amount(limits.memory)
    if "memory" not in has:
        yield (
            "limits.memory",
            "degraded",
            (
                f"{total} for each process (RLIMIT_DATA), not for all together nor for shared memory; a program that "
                f"needs more gets none and reports its own error, without `memory_limit`: {_no_groups(found)}"
            ),
        )
    elif where is not None and not where.swap:
        yield "limits.memory", "degraded", f"{total} ({by}), but this kernel does not count swap"
    else:
        yield "limits.memory", "enforced", f"{total}, swap included ({by})"
    if "cpu" in has:
        yield "limits.cpus", "enforced", f"{limits.cpus:g} ({by})"
    else:
        yield "limits.cpus", "degraded", f"not limited: {_no_groups(found)}"
    if "pids" in has:
        yield "limits.pids", "enforced", f"{limits.pids} ({by})"
    elif found.kernel >= NAMESPACED_COUNT:
        yield (
            "limits.pids",
            "enforced",
            (
                f"{limits.pids} (RLIMIT_NPROC, counted in the sandbox's own user namespace); a program that forks "
                "beyond it reports its own error, without `process_limit`"
            ),
        )
    else:
        yield (
            "limits.pids",
            "degraded",
            f"not limited: this kernel is older than 5.14, and {_no_groups(found)}",
        )
    yield from _wished(spec, by, has, found.disk)


def _wished(spec: SandboxSpec, by: str, has: frozenset[str], disk: str | None) -> Iterator[Row]:
    """Report what only counts where it is configured."""
    limits = spec.limits
    if limits.memory_reservation is not None:
        kept = "memory" in has
        how = f"{amount(limits.memory_reservation)} ({by})" if kept else "not reserved: no control group"
        yield "limits.memoryReservation", "enforced" if kept else "degraded", how
    if limits.cpu_shares is not None:
        kept = "cpu" in has
        yield (
            "limits.cpuShares",
            "enforced" if kept else "degraded",
            f"{limits.cpu_shares} ({by})" if kept else "no effect",
        )
    if limits.io.read is not None or limits.io.write is not None:
        if disk is None:
            yield "limits.io", "degraded", "not limited: the workspace is on no disk that a control group could limit"
        elif "io" in has:
            yield "limits.io", "enforced", f"on the disk of the workspace ({by})"
        elif "blkio" in has:
            yield (
                "limits.io",
                "degraded",
                f"on the disk of the workspace, without writes through the page cache ({by})",
            )
        else:
            yield "limits.io", "degraded", "not limited: no control group"


def _no_groups(found: Findings) -> str:
    if found.hierarchy is not None:
        return "this machine's control groups lack the controller"
    user = found.choice.user
    who = "this gateway" if user is None else f"user {user.uid}"
    return f"no control group that {who} may make (a systemd user session, or a gateway run as root, has one)"
