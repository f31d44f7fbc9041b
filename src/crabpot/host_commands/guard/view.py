"""What a guarded command sees of the host, as data, and the words for bwrap that make it so. Pure."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.spec import hardening
from crabpot.spec.binds import is_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Each is empty, private and writable. Programs of the host unpack and run things there.
PRIVATE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  mounted anew
TMP_BYTES = 1 << 30

# For files of an agent, which belong to another user: root's own guard has no user namespace.
KEPT_BY_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of the host, its links resolved."""

    path: str
    folder: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that one guarded command sees otherwise than the host: later lists lie over earlier ones."""

    hides: tuple[Mount, ...]
    """Absent: an empty folder or an empty file stands there."""
    shows: tuple[Mount, ...]
    """Read-only in spite of that."""
    writes: tuple[Mount, ...]
    sockets: bool = False
    """Whether one of those shown is a socket, so that sockets can be made at all."""
    network: bool = True
    root: bool = False
    readable: tuple[str, ...] = ("/",)
    """All whose files can be read, for Landlock: a mount that hides a file goes when the host replaces that file."""
    owner: tuple[int, int] | None = None
    """Whose the agent's folder is, where the guard is root's: its files are given to nobody else."""
    fixed: tuple[str, ...] = ()
    """Files of /proc that only reading is safe of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """What bwrap takes by number: the filter, where to report, and an empty file for each that is hidden."""

    filter: int
    report: int
    empty: tuple[int, ...] = ()

    def all(self) -> tuple[int, ...]:
        """List them."""
        return (self.filter, self.report, *self.empty)


def hidden_files(view: View) -> int:
    """Count the files that are hidden."""
    return sum(not place.folder for place in view.hides)


def arguments(view: View, given: Descriptors, *, folder: str) -> list[str]:
    """Return bwrap's arguments, up to the program that it is to start."""
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
    # Without a controlling terminal there is none to type into (CVE-2017-5226).
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
    # Last, and nothing is mounted below them: an agent may have planted a link there (CVE-2026-87766).
    for place in _outer_first(view.writes):
        yield from ("--bind", place.path, place.path)


def _sealed(view: View) -> Iterator[str]:
    """Make what stands in for a hidden folder read-only: what is written there would be lost without a word."""
    for place in view.hides:
        if place.folder:
            yield from ("--remount-ro", place.path)


def _privileges(view: View) -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    for name in KEPT_BY_ROOT if view.root else ():
        yield from ("--cap-add", name)


def reaches(view: View, path: str) -> bool:
    """Tell whether a path is the host's own there, to read: neither hidden nor covered by a private folder."""
    covered = [place.path for place in view.hides] + list(PRIVATE)
    shown = [place.path for place in (*view.shows, *view.writes)]
    return not _within(path, covered) or _within(path, shown)


def writable(view: View) -> tuple[str, ...]:
    """List what Landlock lets a guarded command write: the same once more, should a mount ever be wrong."""
    return (*(place.path for place in view.writes), *PRIVATE, *hardening.WRITABLE)


def outermost(places: Iterable[Mount]) -> tuple[Mount, ...]:
    """Leave out what lies in another one: a mount inside what an agent writes is never made."""
    unique = list(dict.fromkeys(places))
    return tuple(one for one in unique if not any(is_under(one.path, other.path) for other in unique))


def _within(path: str, trees: Iterable[str]) -> bool:
    return any(path == tree or is_under(path, tree) for tree in trees)


def _outer_first(places: tuple[Mount, ...]) -> list[Mount]:
    return sorted(places, key=lambda place: os.path.normpath(place.path).count("/"))
