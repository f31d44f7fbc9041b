"""A layer where there is no overlay: the whole folder copied, and what it was when it was copied."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from crabpot.errors import LayerError
from crabpot.state.files import write_whole
from crabpot.state.removal import remove_tree
from crabpot.state.untrusted import CAREFULLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.layer import Layer

BASE = "base.json"

_FICLONE = 0x4004_9409
_PIECE = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_BY_OTHERS, _ENTER_BY_OTHERS = 0o004, 0o005


class Base(NamedTuple):
    """What the host had at a path: the digest of a file, or the text of a link, and what shows that it changed."""

    type: str
    size: int
    mtime_ns: int
    mode: int
    content: str
    inode: int
    ctime_ns: int


def is_complete(layer: Layer) -> bool:
    """Return whether the copy was made to its end."""
    return os.path.exists(os.path.join(layer.path, BASE))


def base(layer: Layer) -> dict[str, Base]:
    """Return what the host had, by path relative to the folder; LayerError if that cannot be read."""
    try:
        with open(os.path.join(layer.path, BASE), "rb") as file:
            entries = json.load(file)["entries"]
        return {path: Base(*entry) for path, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerError(f"what the layer {layer.name} was copied from cannot be read: {error}") from None


def copy_folder(layer: Layer) -> None:
    """Copy the folder under review into its layer, and then note what it was; begins anew where it was interrupted."""
    with suppress(FileNotFoundError):
        remove_tree(layer.content)
    os.mkdir(layer.content, 0o700)
    source = _open_quietly(layer.folder, _FOLDER)
    try:
        target = os.open(layer.content, _FOLDER)
        try:
            found = dict(_Copier(os.fstat(source).st_uid).copy(source, target, ""))
        finally:
            os.close(target)
    finally:
        os.close(source)
    write_whole(os.path.join(layer.path, BASE), json.dumps({"entries": found}))


def differs(layer: Layer) -> bool:
    """Return whether the copy looks other than it was made."""
    before, seen = base(layer), 0
    for path, found in walk(layer.content):
        was = before.get(path)
        if was is None or not _looks_like(was, found):
            return True
        seen += 1
    return seen != len(before)


def walk(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what lies in a folder, by path relative to it, following no link."""
    for at, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        inside = os.path.relpath(at, folder)
        for name in (*folders, *files):
            found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            yield name if inside == "." else f"{inside}/{name}", found


def _looks_like(was: Base, found: os.stat_result) -> bool:
    if was.type == "folder":
        return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == was.mode
    if was.type == "link":
        return stat.S_ISLNK(found.st_mode)
    now = (found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode))
    return stat.S_ISREG(found.st_mode) and now == (was.size, was.mtime_ns, was.mode)


class _Copier:
    """Copies what the folder's owner, or everybody, may read; root's copy must not show more than that."""

    def __init__(self, owner: int) -> None:
        self._owner = owner

    def copy(self, source: int, target: int, above: str) -> Iterator[tuple[str, Base]]:
        """Copy from one open folder to another, and yield what was there."""
        for name in sorted(os.listdir(source)):
            path = f"{above}{name}"
            with suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    yield path, _copy_link(name, found, source, target)
                elif stat.S_ISREG(found.st_mode) and self._may(found, _READ_BY_OTHERS):
                    yield path, _copy_file(name, source, target)
                elif stat.S_ISDIR(found.st_mode) and self._may(found, _ENTER_BY_OTHERS):
                    yield path, _note("folder", found, "")
                    yield from self._copy_inner(name, found, source, target, path)

    def _may(self, found: os.stat_result, bits: int) -> bool:
        return found.st_uid == self._owner or found.st_mode & bits == bits

    def _copy_inner(
        self, name: str, found: os.stat_result, source: int, target: int, path: str
    ) -> Iterator[tuple[str, Base]]:
        os.mkdir(name, 0o700, dir_fd=target)
        inner = _open_quietly(name, _FOLDER, source)
        try:
            made = os.open(name, _FOLDER, dir_fd=target)
            try:
                yield from self.copy(inner, made, f"{path}/")
                os.fchmod(made, _safe(found))
                os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
            finally:
                os.close(made)
        finally:
            os.close(inner)


def _copy_link(name: str, found: os.stat_result, source: int, target: int) -> Base:
    text = os.readlink(name, dir_fd=source)
    os.symlink(text, name, dir_fd=target)
    return _note("link", found, text)


def _copy_file(name: str, source: int, target: int) -> Base:
    reading = _open_quietly(name, CAREFULLY, source)
    try:
        found = os.fstat(reading)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(name)
        writing = os.open(name, _NEW, 0o600, dir_fd=target)
        try:
            digest = clone_or_copy(reading, writing)
            os.fchmod(writing, _safe(found))
            os.utime(writing, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return _note("file", found, digest)


def _open_quietly(name: str, flags: int, folder: int | None = None) -> int:
    """Open what is only read, without a trace in its time of access, as far as that is allowed: to its owner."""
    try:
        return os.open(name, flags | os.O_NOATIME, dir_fd=folder)
    except PermissionError:
        return os.open(name, flags, dir_fd=folder)


def clone_or_copy(reading: int, writing: int) -> str:
    """Copy the content of one open file to another, sharing its blocks where the file system can; return the digest."""
    shared = True
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError:
        shared = False
    digest = hashlib.sha256()
    while piece := os.read(reading, _PIECE):
        digest.update(piece)
        left = memoryview(piece)
        while not shared and left:
            left = left[os.write(writing, left) :]
    return digest.hexdigest()


def _safe(found: os.stat_result) -> int:
    """Return its permissions, without setuid and setgid, and such that its owner can work with it."""
    return stat.S_IMODE(found.st_mode) & 0o777 | (0o700 if stat.S_ISDIR(found.st_mode) else 0o600)


def _note(type_: str, found: os.stat_result, content: str) -> Base:
    mode = 0o777 if type_ == "link" else _safe(found)
    return Base(type_, found.st_size, found.st_mtime_ns, mode, content, found.st_ino, found.st_ctime_ns)
