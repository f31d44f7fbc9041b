"""Walk and copy trees that an agent wrote: no link is followed, nothing special is opened, and no depth is too much.

A copy is what the original is: times, modes, holes, links between files, and what an overlay keeps beside them
(whiteouts, and attributes of its own).
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from crabpot.errors import LayerError
from crabpot.state.untrusted import CAREFULLY

if TYPE_CHECKING:
    from collections.abc import Iterator

# Nothing honest is as deep; each level holds two descriptors and a frame of the stack.
_DEEPEST = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE = 0x4004_9409
_PIECE = 1024 * 1024
_BLOCK = 512
_WHITEOUT = os.makedev(0, 0)


@contextmanager
def opened(path: str, folder: int | None = None) -> Iterator[int]:
    """Open a folder for a block; its owner may have removed its permissions."""
    handle = _open(path, folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _open(path: str, folder: int | None) -> int:
    try:
        return os.open(path, _FOLDER | os.O_NOATIME, dir_fd=folder)
    except PermissionError:
        held = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            # An ordinary gateway's agent is the same user, and may have locked both of them out.
            if os.fstat(held).st_uid == os.geteuid() and os.fstat(held).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(f"/proc/self/fd/{held}", os.fstat(held).st_mode & 0o7777 | stat.S_IRWXU)
            return os.open(f"/proc/self/fd/{held}", _FOLDER & ~os.O_NOFOLLOW)
        finally:
            os.close(held)


def size_of(folder: str) -> int:
    """Return how many bytes of the disk all in a folder takes, each inode counted once."""
    counted: set[int] = set()
    with opened(folder) as handle:
        return sum(_sizes(handle, counted, 0))


def _sizes(folder: int, counted: set[int], depth: int) -> Iterator[int]:
    _check(depth)
    for name in os.listdir(folder):
        # Whoever writes here meanwhile may remove it, or put something else in its place.
        with suppress(FileNotFoundError, NotADirectoryError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if found.st_ino not in counted:
                yield found.st_blocks * _BLOCK
                if found.st_nlink > 1:
                    counted.add(found.st_ino)
            if stat.S_ISDIR(found.st_mode):
                with opened(name, folder) as inner:
                    yield from _sizes(inner, counted, depth + 1)


def copy(source: str, target: str) -> None:
    """Copy a folder to a path where nothing is; what fails half-way is left for the caller to remove."""
    with opened(source) as reading:
        os.mkdir(target, 0o700)
        with opened(target) as writing:
            _Copy().fill(reading, writing, 0)
            _dress(writing, os.fstat(reading), reading)


class _Copy:
    """One copy under way: files that are one file by several names stay one."""

    def __init__(self) -> None:
        self._top = -1
        self._made: dict[int, str] = {}

    def fill(self, source: int, target: int, depth: int, above: str = "") -> None:
        """Copy what is in one open folder to another."""
        _check(depth)
        if depth == 0:
            self._top = target
        for name in os.listdir(source):
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                os.mkdir(name, 0o700, dir_fd=target)
                with opened(name, source) as inner, opened(name, target) as made:
                    self.fill(inner, made, depth + 1, f"{above}{name}/")
                    _dress(made, found, inner)
            elif found.st_nlink > 1 and found.st_ino in self._made:
                os.link(self._made[found.st_ino], name, src_dir_fd=self._top, dst_dir_fd=target, follow_symlinks=False)
            else:
                self._made[found.st_ino] = f"{above}{name}"
                _copy_one(name, found, source, target)


def _copy_one(name: str, found: os.stat_result, source: int, target: int) -> None:
    if stat.S_ISREG(found.st_mode):
        _copy_file(name, source, target)
    elif stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        _own(name, found, target)
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target, follow_symlinks=False)
    elif stat.S_ISCHR(found.st_mode) and found.st_rdev == _WHITEOUT:
        # The one device that anybody may make: it says that something is not there.
        os.mknod(name, stat.S_IFCHR, _WHITEOUT, dir_fd=target)
        _own(name, found, target)
    elif stat.S_ISFIFO(found.st_mode):
        os.mkfifo(name, 0o600, dir_fd=target)
        _own(name, found, target)


def _copy_file(name: str, source: int, target: int) -> None:
    reading = _open_file(name, source)
    try:
        found = os.fstat(reading)
        if not stat.S_ISREG(found.st_mode):
            raise LayerError(f"{name!r} changed while it was copied")
        writing = os.open(name, _NEW, 0o600, dir_fd=target)
        try:
            _copy_data(reading, writing, found.st_size)
            _dress(writing, found, reading)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _open_file(name: str, folder: int) -> int:
    try:
        return os.open(name, CAREFULLY, dir_fd=folder)
    except PermissionError:
        # Its owner, this user's own agent, may have made it unreadable.
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            mode = os.fstat(held).st_mode & 0o7777
            os.chmod(f"/proc/self/fd/{held}", mode | stat.S_IRUSR)
            try:
                return os.open(f"/proc/self/fd/{held}", CAREFULLY & ~os.O_NOFOLLOW)
            finally:
                os.chmod(f"/proc/self/fd/{held}", mode)
        finally:
            os.close(held)


def _copy_data(reading: int, writing: int, size: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(writing, _FICLONE, reading)
        return
    # A file of a few blocks may say that it is huge: only what it has is copied.
    os.ftruncate(writing, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(reading, at, os.SEEK_DATA)
        except OSError:
            return
        hole = os.lseek(reading, at, os.SEEK_HOLE)
        while at < hole:
            piece = os.pread(reading, min(_PIECE, hole - at), at)
            if not piece:
                return
            at += os.pwrite(writing, piece, at)


def _dress(made: int, found: os.stat_result, source: int) -> None:
    """Copy the attributes of the original to an open copy."""
    for name in os.listxattr(source):
        if name.startswith("user."):
            os.setxattr(made, name, os.getxattr(source, name))
    if os.geteuid() == 0:
        os.fchown(made, found.st_uid, found.st_gid)
    os.fchmod(made, stat.S_IMODE(found.st_mode) & 0o1777)
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))


def _own(name: str, found: os.stat_result, folder: int) -> None:
    if os.geteuid() == 0:
        os.chown(name, found.st_uid, found.st_gid, dir_fd=folder, follow_symlinks=False)


def _check(depth: int) -> None:
    if depth > _DEEPEST:
        raise LayerError(f"what the agent wrote is more than {_DEEPEST} folders deep: discard it, or have it tidied up")
