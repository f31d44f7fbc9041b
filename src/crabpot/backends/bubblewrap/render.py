"""From a spec and the facts of the machine to bwrap's arguments. Pure: no process, no socket, no file.

Two ways, by what the machine allows. *Sealed*: bwrap builds the namespaces and the tree, and `seal` adds the rest
from inside (noexec /tmp, own terminals, masks, no capability, filter). *Plain*: bwrap does all it can by itself,
which leaves /tmp executable; for machines that deny capabilities to what bwrap starts, as Ubuntu's profile for it
does.
"""

from __future__ import annotations

import os.path
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from crabpot.backends.linux.etc import HOSTNAME
from crabpot.frozen import dataclass
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.backends.bubblewrap.layout import Layout
    from crabpot.backends.linux.held_files import Held
    from crabpot.settings import Limits
    from crabpot.spec.spec import SandboxSpec

# How sources get in: mounts that root made and the seal attaches, descriptors that bwrap takes, paths that bwrap walks
# and the seal compares afterwards, or paths that a child of the fork server compares before it mounts them.
Mounting = Literal["attach", "fd", "path", "find"]

RUNNER = f"{hardening.RUNNER}/runner"
SEAL = f"{hardening.RUNNER}/seal.pyc"
FILTER = f"{hardening.RUNNER}/seccomp.bpf"
TMP, VAR_TMP, SHM, TERMINALS = "/tmp", "/var/tmp", "/dev/shm", "/dev/pts"  # noqa: S108  names inside the sandbox
_MEMORY = (TMP, VAR_TMP, SHM)
# Where bwrap mounts what the seal moves to its place.
_ASIDE = f"{hardening.RUNNER}/aside"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_STANDARD = (
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
)
# Above what ordinary programs have: when the whole machine runs out of memory, a sandbox goes first.
_OOM_SCORE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a bwrap was observed to do on this machine."""

    mounting: Mounting
    seals: bool
    safe_below_links: bool
    # Whether an ordinary user's other groups are given up before it starts.
    groupless: bool = False
    # Whether a child of the fork server can make the same sandbox.
    forks: bool = False

    @property
    def attaches(self) -> bool:
        """Return whether the seal attaches the host's folders itself."""
        return self.mounting in ("attach", "find")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The facts of one opening: descriptors as the gateway has them."""

    program: Program
    layout: Layout
    interpreter: str
    held: tuple[Held, ...]
    files: tuple[tuple[str, int], ...]
    wire_fd: int
    report_fd: int | None = None
    filter_fd: int | None = None
    join_fds: tuple[int, ...] = ()
    data_bytes: int | None = None
    mark: str = ""
    # Where a folder under review is, if it is mounted below its layer.
    overlay: str | None = None
    # For a child of the fork server, which reads this in bwrap's place: the numbers that descriptors arrive with.
    numbers: Mapping[int, int] | None = None

    def number(self, fd: int) -> int:
        """Return a descriptor as the new process will have it."""
        return fd if self.numbers is None else self.numbers.get(fd, -1)


def arguments(spec: SandboxSpec, plan: LaunchPlan) -> list[str]:
    """Return all that follows the program's name."""
    made = [
        *_namespaces(spec, plan),
        *_places(plan),
        *_system(plan),
        *_own_mounts(plan, spec.limits),
        *_kernel(plan, spec.limits),
        *("--remount-ro", "/"),
        *_privileges(plan),
    ]
    runner = [plan.interpreter, "-I", "-S", SEAL, str(plan.number(plan.wire_fd)), *orders(spec, plan)]
    return [*made, "--", *runner]


def orders(spec: SandboxSpec, plan: LaunchPlan) -> Iterator[str]:
    """Yield what `seal` must do inside, in order: the filter last, since little is allowed after it."""
    yield f"mark={plan.mark}"
    yield from (f"join={plan.number(fd)}" for fd in plan.join_fds)
    yield f"oom-score={_OOM_SCORE}"
    if plan.program.seals:
        # Before the folders of the host, which may lie below.
        mounting = "tmpfs-exec" if spec.tmp_exec else "tmpfs"
        yield from (f"{mounting}={spec.limits.tmp}:{path}" for path in (TMP, VAR_TMP))
        yield f"tmpfs={spec.limits.tmp}:{SHM}"
        yield from (f"folder={step}" for step in _made_in_memory(plan))
    if plan.program.attaches:
        yield from (f"attach={plan.number(one.fd)}:{one.target}" for one in _outer_first(plan.held))
    elif plan.program.seals:
        yield from (f"move={_landing(one, plan)}:{one.target}" for one in _outer_first(plan.held) if _in_memory(one))
    if plan.program.mounting == "path":
        yield from (f"expect={one.device}:{one.inode}:{one.target}" for one in plan.held)
    if plan.overlay is not None:
        yield f"overlay={plan.overlay}"
        # From here on the agent's layer is reached through the mount alone.
        yield f"detach={hardening.LAYER}"
    yield f"load={RUNNER}"
    if plan.data_bytes is not None:
        yield f"data={plan.data_bytes}"
    if plan.program.seals:
        yield "hide-groups="
        yield f"terminals={TERMINALS}"
        yield from (f"mask-file={path}" for path in plan.layout.masked_files)
        yield from (f"mask-folder={path}" for path in plan.layout.masked_folders)
        yield from (f"lock={path}" for path in plan.layout.fixed)
        yield from (f"lock-device=/dev/{name}" for name in DEVICES)
        if plan.numbers is not None:
            yield "isolate="
        yield "drop="
        yield f"filter={FILTER}"


def descriptors(plan: LaunchPlan) -> list[int]:
    """Return the descriptors that the arguments name; no other goes in."""
    by_fd = [one.fd for one in plan.held] if plan.program.mounting in ("attach", "fd") else []
    others = [fd for fd in (plan.report_fd, plan.filter_fd) if fd is not None]
    return [*by_fd, *(fd for _, fd in plan.files), plan.wire_fd, *others, *plan.join_fds]


def nested(spec: SandboxSpec) -> list[str]:
    """Return the binds that land inside another, where the agent may have planted a link (CVE-2026-87766)."""
    return [target for target in spec.targets if any(_under(target, other) for other in spec.targets)]


def _namespaces(spec: SandboxSpec, plan: LaunchPlan) -> Iterator[str]:
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", HOSTNAME)
    if spec.network.kind != "host":
        yield "--unshare-net"
    if not plan.program.seals:
        yield "--unshare-cgroup-try"
    # TIOCSTI (CVE-2017-5226): without a controlling terminal there is none to type into.
    yield "--new-session"
    yield from ("--die-with-parent", "--as-pid-1")
    if plan.report_fd is not None:
        yield from ("--info-fd", str(plan.report_fd))
    # Nothing that configures the gateway, or bwrap's own loader, goes in.
    yield from ("--clearenv", "--setenv", "LANG", hardening.LANG, "--chdir", "/")


def _places(plan: LaunchPlan) -> Iterator[str]:
    """Make the folders of mount points: those that bwrap makes by itself, only the user could enter."""
    landing = [path for path, _ in plan.files]
    landing += [*plan.layout.mounts, *(path for _, path in plan.layout.links)]
    landing += [_landing(one, plan) for one in plan.held if not _inside(one, plan)]
    folders = []
    if plan.program.attaches:
        folders += [one.target for one in plan.held if one.folder and not _inside(one, plan) and not _in_memory(one)]
    if plan.program.seals:
        folders += [*_MEMORY, TERMINALS]
    else:
        folders.append(os.path.dirname(VAR_TMP))
    above = [step for path in landing for step in _above(path)]
    for step in dict.fromkeys([*above, *(step for path in folders for step in _steps(path))]):
        yield from ("--perms", "0755", "--dir", step)


def _system(plan: LaunchPlan) -> Iterator[str]:
    for path in plan.layout.mounts:
        yield from ("--ro-bind", path, path)
    for text, path in plan.layout.links:
        yield from ("--symlink", text, path)
    for path, fd in plan.files:
        perms = "0555" if _under(path, hardening.SHIMS) else "0444"
        yield from ("--perms", perms, "--file", str(plan.number(fd)), path)


def _own_mounts(plan: LaunchPlan, limits: Limits) -> Iterator[str]:
    if not plan.program.seals:
        for path in (TMP, VAR_TMP):
            yield from ("--perms", "1777", "--size", str(limits.tmp), "--tmpfs", path)
    for one in _outer_first(plan.held):
        kind = "ro-bind" if one.access == "ro" else "bind"
        if plan.program.mounting == "fd":
            yield from (f"--{kind}-fd", str(one.fd), _landing(one, plan))
        elif plan.program.mounting == "path":
            yield from (f"--{kind}", one.path, _landing(one, plan))
        if plan.program.mounting == "find":
            yield from ("--find", one.access, f"{one.device}:{one.inode}", one.path, one.target)
        if plan.program.attaches and not one.folder and not _inside(one, plan) and not _in_memory(one):
            # A mount point for the file that the seal attaches; inside another mount it must exist already.
            yield from ("--ro-bind", "/dev/null", one.target)


def _kernel(plan: LaunchPlan, limits: Limits) -> Iterator[str]:
    yield from ("--proc", "/proc")
    if plan.program.seals:
        # `--dev` would cost a second user namespace, in which nothing can be remounted any more.
        for name in DEVICES:
            yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
        for text, name in (("pts/ptmx", "ptmx"), *_STANDARD):
            yield from ("--symlink", text, f"/dev/{name}")
    else:
        yield from ("--dev", "/dev")
        yield from ("--perms", "1777", "--size", str(limits.tmp), "--tmpfs", SHM)
        for path in plan.layout.masked_files:
            yield from ("--ro-bind", "/dev/null", path)
        for path in plan.layout.masked_folders:
            yield from ("--perms", "0555", "--size", "4096", "--tmpfs", path, "--remount-ro", path)
        for path in plan.layout.fixed:
            yield from ("--ro-bind", path, path)
        yield from ("--remount-ro", "/dev")


def _privileges(plan: LaunchPlan) -> Iterator[str]:
    if plan.program.seals:
        # Over the sandbox's own namespaces only, for `seal`, which drops them all before the runner starts.
        yield from ("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP")
        if plan.overlay is not None:
            # An overlay works with the rights of who mounted it, in a folder of its own that it gives mode 000.
            yield from ("--cap-add", "CAP_DAC_OVERRIDE")
    else:
        yield from ("--cap-drop", "ALL", "--seccomp", str(plan.filter_fd))


def _in_memory(one: Held) -> bool:
    return any(_under(one.target, path) for path in _MEMORY)


def _landing(one: Held, plan: LaunchPlan) -> str:
    """Return where bwrap mounts it: aside, where the seal will cover what is at its place with a folder in memory."""
    if plan.program.attaches or not plan.program.seals or not _in_memory(one):
        return one.target
    return f"{_ASIDE}/{plan.held.index(one)}"


def _made_in_memory(plan: LaunchPlan) -> Iterator[str]:
    """Yield the folders of mount points that only the seal can make; a file's own begins with `+`."""
    held = [one for one in plan.held if _in_memory(one) and not _inside(one, plan)]
    above = [step for one in held for step in _above(one.target)]
    yield from (step for step in dict.fromkeys(above) if any(_under(step, path) for path in _MEMORY))
    yield from (one.target if one.folder else f"+{one.target}" for one in held)


def _outer_first(held: tuple[Held, ...]) -> list[Held]:
    """Sort what contains before what it contains."""
    return sorted(held, key=lambda one: one.target.count("/"))


def _inside(one: Held, plan: LaunchPlan) -> bool:
    return any(_under(one.target, other.target) for other in plan.held)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[str, ...]:
    parts = path.strip("/").split("/") if path.strip("/") else []
    return tuple("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))


@lru_cache(maxsize=1024)
def _above(path: str) -> tuple[str, ...]:
    return _steps(os.path.dirname(path))


def _under(path: str, tree: str) -> bool:
    return path != tree and path.startswith(tree.rstrip("/") + "/")
