"""What a guarded command sees of the host, as data, and the bwrap arguments that make it so. Pure."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.spec import hardening
from crabpot.spec.binds import is_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Each is empty, private and writable. Programs of the host unpack and run files there.
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  a new mount
TMP_BYTES = 1 << 30

# For an agent's files, which belong to another user: root's guard has no user namespace.
KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the host, with links resolved."""

    path: str
    folder: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where a guarded command's view differs from the host: later lists are mounted over earlier ones."""

    hides: tuple[Mount, ...]
    """Hidden behind an empty folder or an empty file."""
    shows: tuple[Mount, ...]
    """Read-only, even inside a writable folder."""
    writes: tuple[Mount, ...]
    sockets: bool = False
    """Whether a shown path is a socket, so that the filter allows sockets at all."""
    network: bool = True
    root: bool = False
    readable: tuple[str, ...] = ("/",)
    """The readable paths, for Landlock: a mount that hides a file disappears when the host replaces that file."""
    owner: tuple[int, int] | None = None
    """The owner of the agent's folder, if the guard runs as root: files can be chowned to nobody else."""
    fixed: tuple[str, ...] = ()
    """Files of /proc that are safe to read only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """The descriptors that bwrap takes: the filter, where to report, and an empty file for each hidden one."""

    filter: int
    report: int
    empty: tuple[int, ...] = ()

    def all(self) -> tuple[int, ...]:
        """List all the descriptors."""
        return (self.filter, self.report, *self.empty)


def hidden_files(view: View) -> int:
    """Return the number of hidden files."""
    return sum(not place.folder for place in view.hides)


def arguments(view: View, given: Descriptors, *, folder: str) -> list[str]:
    """Return bwrap's arguments, up to the program to start."""
    return [
        *_namespaces(view),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *_kernel(view),
        *_private(),
        *_hidden(view, given),
        *_mounted(view),
        *_sealed(view),
        *_privileges(view),
        *("--seccomp", str(given.filter), "--info-fd", str(given.report), "--chdir", folder, "--"),
    ]


def _namespaces(view: View) -> Iterator[str]:
    if not view.root:
        yield "--unshare-user"
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    if not view.network:
        yield "--unshare-net"
    # Without a controlling terminal, a command cannot type into one (CVE-2017-5226).
    yield from ("--new-session", "--die-with-parent", "--as-pid-1")


def _kernel(view: View) -> Iterator[str]:
    for path in view.fixed:
        yield from ("--ro-bind", path, path)


def _private() -> Iterator[str]:
    for path in PRIVATE:
        yield from ("--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", path)


def _hidden(view: View, given: Descriptors) -> Iterator[str]:
    empty = iter(given.empty)
    for place in _outer_first(view.hides):
        if place.folder:
            yield from ("--perms", "0755", "--size", "1048576", "--tmpfs", place.path)
        else:
            yield from ("--perms", "0444", "--ro-bind-data", str(next(empty)), place.path)


def _mounted(view: View) -> Iterator[str]:
    for place in _outer_first(view.shows):
        yield from ("--ro-bind", place.path, place.path)
    # Last, and with no mount below them: an agent may have planted a link there (CVE-2026-87766).
    for place in _outer_first(view.writes):
        yield from ("--bind", place.path, place.path)


def _sealed(view: View) -> Iterator[str]:
    """Return arguments that make the substitutes of hidden folders read-only: writes to them would be silently lost."""
    for place in view.hides:
        if place.folder:
            yield from ("--remount-ro", place.path)


def _privileges(view: View) -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    for name in KEPT_BY_ROOT if view.root else ():
        yield from ("--cap-add", name)


def hides(view: View, path: str) -> bool:
    """Return whether a path leads to something of the host that is hidden."""
    return _within(path, [place.path for place in view.hides]) and not _within(path, _shown(view))


def reaches(view: View, path: str) -> bool:
    """Return whether a path shows the host's own file: neither hidden nor covered by a private folder."""
    return not hides(view, path) and (not _within(path, PRIVATE) or _within(path, _shown(view)))


def _shown(view: View) -> list[str]:
    return [place.path for place in (*view.shows, *view.writes)]


def writable(view: View) -> tuple[str, ...]:
    """List what Landlock lets a guarded command write: the same paths again, in case a mount is ever wrong."""
    return (*(place.path for place in view.writes), *PRIVATE, *hardening.WRITABLE)


def outermost(places: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the mounts that are not inside another: nothing is ever mounted inside what an agent may write."""
    unique = list(dict.fromkeys(places))
    return tuple(one for one in unique if not any(is_under(one.path, other.path) for other in unique))


def _within(path: str, trees: Iterable[str]) -> bool:
    return any(path == tree or is_under(path, tree) for tree in trees)


def _outer_first(places: tuple[Mount, ...]) -> list[Mount]:
    return sorted(places, key=lambda place: os.path.normpath(place.path).count("/"))
