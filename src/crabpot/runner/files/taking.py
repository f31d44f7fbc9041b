"""Write beneath a folder what another machine sends, believing nothing of it.

A path stays beneath the folder, no link is followed, only files, folders and links come to be, without setuid, and
never more than `most` bytes of them.
"""

from __future__ import annotations

import errno
import os
import stat

from .records import Broken, content, header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

# Nothing honest is as deep; each level holds a descriptor and a frame of the stack.
DEEPEST = 200
LONGEST_PATH = 4096
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# What an entry takes at least, however little is in it.
_ENTRY = 512
_LATEST_NS = 1 << 62


class Taking:
    """Writes what comes beneath a folder. With `drafts`, another folder of its disk, a file is there whole or not."""

    def __init__(self, top: int, *, drafts: int | None = None, most: int | None = None) -> None:
        self._top = top
        self._drafts = drafts
        self._left = most
        self._made = 0

    def take(self, reading: BinaryIO) -> None:
        """Take records until the end; Broken or OSError if something is wrong with one."""
        while (record := header(reading)).get("kind") != "end":
            self._charge(_ENTRY)
            parts = _parts(record.get("path"))
            try:
                folder = step(self._top, parts[:-1])
            except OSError:
                # What holds it is gone, or no folder any more.
                if record.get("kind") == "gone":
                    continue
                raise
            try:
                self._take_one(record, reading, folder, parts[-1])
            finally:
                os.close(folder)

    def _take_one(self, record: dict[str, Any], reading: BinaryIO, folder: int, name: str) -> None:
        kind = record.get("kind")
        if kind == "file":
            self._file(record, reading, folder, name)
        elif kind == "folder":
            _make_folder(folder, name, _number(record, "mode") & 0o777 | 0o700)
        elif kind == "link":
            self._link(record, folder, name)
        elif kind == "gone":
            _remove(folder, name)
        else:
            raise Broken(f"nothing is called {str(kind)[:50]!r}")

    def _file(self, record: dict[str, Any], reading: BinaryIO, folder: int, name: str) -> None:
        draft, place = self._draft(folder, name)
        handle = os.open(draft, _NEW, 0o600, dir_fd=place)
        try:
            for piece in content(reading):
                self._charge(len(piece))
                left = memoryview(piece)
                while left:
                    left = left[os.write(handle, left) :]
            os.fchmod(handle, _number(record, "mode") & 0o777 | 0o600)
            at = min(max(_number(record, "mtime_ns"), 0), _LATEST_NS)
            os.utime(handle, ns=(at, at))
        finally:
            os.close(handle)
        self._publish(draft, place, folder, name)

    def _link(self, record: dict[str, Any], folder: int, name: str) -> None:
        text: Any = record.get("target")
        if not _is_path(text):
            raise Broken("a link leads nowhere")
        draft, place = self._draft(folder, name)
        os.symlink(text, draft, dir_fd=place)
        self._publish(draft, place, folder, name)

    def _draft(self, folder: int, name: str) -> tuple[str, int]:
        if self._drafts is None:
            _remove(folder, name)
            return name, folder
        self._made += 1
        return str(self._made), self._drafts

    def _publish(self, draft: str, place: int, folder: int, name: str) -> None:
        if self._drafts is not None:
            if stat.S_ISDIR(mode_of(folder, name)):
                _remove(folder, name)
            os.rename(draft, name, src_dir_fd=place, dst_dir_fd=folder)

    def _charge(self, size: int) -> None:
        if self._left is not None:
            self._left -= size
            if self._left < 0:
                raise Broken("more changed than limits.disk allows")


def step(top: int, parts: list[str]) -> int:
    """Open the folder at the end of some names, none of which may be a link."""
    at = os.dup(top)
    try:
        for part in parts:
            inner = os.open(part, FOLDER, dir_fd=at)
            os.close(at)
            at = inner
    except BaseException:
        os.close(at)
        raise
    return at


def mode_of(folder: int, name: str) -> int:
    """Return what is there, as its mode says; 0 for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _number(record: dict[str, Any], name: str) -> int:
    found = record.get(name)
    if not isinstance(found, int):
        raise Broken(f"{name} is not a number")
    return found


def _parts(path: Any) -> list[str]:
    """Return the names of a path that stays beneath its folder."""
    if not _is_path(path):
        raise Broken("a path is none")
    parts: list[str] = path.split("/")
    if {"", ".", ".."} & set(parts) or len(parts) > DEEPEST:
        raise Broken(f"{path[:100]!r} does not stay beneath its folder")
    return parts


def _is_path(text: object) -> bool:
    try:
        return isinstance(text, str) and bool(text) and "\0" not in text and len(os.fsencode(text)) < LONGEST_PATH
    except UnicodeEncodeError:
        return False


def _make_folder(folder: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(mode_of(folder, name)):
            _remove(folder, name)
            os.mkdir(name, 0o700, dir_fd=folder)
    handle = os.open(name, FOLDER, dir_fd=folder)
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _remove(folder: int, name: str) -> None:
    """Remove whatever is there; nothing is no mistake."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
        handle = os.open(name, FOLDER, dir_fd=folder)
        try:
            _empty(handle)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=folder)


def _empty(folder: int) -> None:
    for name in os.listdir(folder):
        _remove(folder, name)
