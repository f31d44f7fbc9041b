"""A folder held open, and what lies beneath it: no link is followed, whatever is swapped meanwhile.

Paths are relative to the folder, without `.` and `..`; the empty one is the folder itself.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from crabpot.runner.files.beneath import Anchor, Opener

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 18


class Tree:
    """One folder of the host or of a layer."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.device = os.fstat(self.fd).st_dev
        self._anchor = Anchor(b"/", self.fd, confined=True)
        self._opener = Opener()

    def close(self) -> None:
        """Close the folder; call it once."""
        os.close(self.fd)

    def open(self, path: str, flags: int) -> int:
        """Open a path; ELOOP if a link is on the way, and nothing blocks."""
        unblocked = 0 if flags & os.O_PATH else os.O_NONBLOCK
        return self._opener.open(
            self._anchor, os.fsencode(path), flags | unblocked | os.O_NOFOLLOW | os.O_CLOEXEC, follow=False
        )

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder that holds a path, and yield it with the name there."""
        head, _, name = path.rpartition("/")
        handle = self.open(head, os.O_PATH | os.O_DIRECTORY)
        try:
            yield handle, name
        finally:
            os.close(handle)

    def stat(self, path: str) -> os.stat_result | None:
        """Return what lies at a path, or None; a link or a file on the way means that nothing does."""
        try:
            with self.parent(path) as (folder, name):
                return os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
                return None
            raise

    def entries(self, path: str) -> dict[str, os.stat_result]:
        """Return what lies in a folder."""
        handle = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            found = {}
            with os.scandir(handle) as listed:
                for entry in listed:
                    with suppress(FileNotFoundError):
                        found[entry.name] = os.stat(entry.name, dir_fd=handle, follow_symlinks=False)
            return found
        finally:
            os.close(handle)

    def target(self, path: str) -> str:
        """Return where a link points."""
        with self.parent(path) as (folder, name):
            return os.readlink(name, dir_fd=folder)

    def attribute(self, path: str, name: str) -> bytes | None:
        """Return an extended attribute of a file or folder, or None."""
        try:
            handle = self.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return os.getxattr(handle, name)
        except OSError:
            return None
        finally:
            os.close(handle)

    def content(self, path: str) -> Iterator[bytes]:
        """Yield a regular file's content; OSError for anything else."""
        handle = self.open(path, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", path)
            while piece := os.read(handle, _PIECE):
                yield piece
        finally:
            os.close(handle)

    def read(self, path: str, most: int) -> bytes | None:
        """Return a regular file's content, or None if it cannot be read or is larger than `most`."""
        kept = bytearray()
        try:
            for piece in self.content(path):
                kept += piece
                if len(kept) > most:
                    return None
        except OSError:
            return None
        return bytes(kept)

    def below(self, path: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield everything beneath a folder, what is deepest first."""
        for name, facts in sorted(self.entries(path).items()):
            inner = join(path, name)
            if stat.S_ISDIR(facts.st_mode):
                yield from self.below(inner)
            yield inner, facts


@contextmanager
def opened(path: str) -> Iterator[Tree]:
    """Hold a folder open."""
    tree = Tree(path)
    try:
        yield tree
    finally:
        tree.close()


def join(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


def same_content(one: Tree, other: Tree, path: str) -> bool:
    """Return whether two regular files of the same size hold the same; False if one cannot be read."""
    try:
        return all(a == b for a, b in zip(one.content(path), other.content(path), strict=True))
    except (OSError, ValueError):
        return False
