"""A package's files as they were sealed: copied out of the sandbox that installed them, and known by one digest."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.state.untrusted import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "packages"
_MOST_FILES, _MOST_BYTES = 100_000, 1 << 30
_CHUNK = 1 << 20


def folder(state: str, digest: str) -> str:
    """Return where the files with a digest are kept."""
    return os.path.join(state, FOLDER, digest)


def copy(source: str, target: str) -> None:
    """Copy a tree that a sandbox wrote: plain files, folders, and links that stay inside it; nothing is followed."""
    os.mkdir(target, 0o755)
    size = 0
    for path, facts in _entries(source):
        there = os.path.join(target, path)
        if stat.S_ISDIR(facts.st_mode):
            os.mkdir(there, 0o755)
        elif stat.S_ISLNK(facts.st_mode):
            os.symlink(_inside(source, path), there)
        elif stat.S_ISREG(facts.st_mode):
            size += facts.st_size
            if size > _MOST_BYTES:
                raise CrabpotError(f"the package has more than {_MOST_BYTES >> 20} MiB")
            _copy_file(os.path.join(source, path), there, 0o755 if facts.st_mode & 0o100 else 0o644)
        else:
            raise CrabpotError(f"the package has something that is no file: {path!a}")


def digest(root: str) -> str:
    """Return the digest of a tree: every name, kind, right to execute, and byte."""
    made = hashlib.sha256()
    for path, facts in _entries(root):
        if stat.S_ISLNK(facts.st_mode):
            what = f"link {os.readlink(os.path.join(root, path))}"
        elif stat.S_ISDIR(facts.st_mode):
            what = "folder"
        else:
            what = f"{'program' if facts.st_mode & 0o100 else 'file'} {_sum(os.path.join(root, path))}"
        made.update(f"{path}\0{what}\0".encode("utf-8", "surrogateescape"))
    return made.hexdigest()


def _entries(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything below a folder, each before what is in it, in one order."""
    # Whoever wrote the tree could have left a link here, to a folder that it may not read.
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        raise CrabpotError("the package is no folder")
    todo, count = [""], 0
    while todo:
        at = todo.pop()
        with os.scandir(os.path.join(root, at)) as found:
            names = sorted(entry.name for entry in found)
        for name in names:
            count += 1
            if count > _MOST_FILES:
                raise CrabpotError(f"the package has more than {_MOST_FILES} files")
            path = os.path.join(at, name)
            facts = os.lstat(os.path.join(root, path))
            yield path, facts
            if stat.S_ISDIR(facts.st_mode):
                todo.append(path)


def _inside(root: str, path: str) -> str:
    target = os.readlink(os.path.join(root, path))
    landing = os.path.normpath(os.path.join(os.path.dirname(path), target))
    # What stays inside by its text may lead out by another link on its way: `up/..`, where `up` is a link to the root.
    real, top = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    if target.startswith("/") or landing.startswith("..") or os.path.commonpath([real, top]) != top:
        raise CrabpotError(f"the package has a link that leads out of it: {path!a}")
    return target


def _copy_file(source: str, target: str, mode: int) -> None:
    with (
        open(open_regular(source), "rb") as reading,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as writing,
    ):
        while data := reading.read(_CHUNK):
            writing.write(data)
        os.fchmod(writing.fileno(), mode)


def _sum(path: str) -> str:
    with open(open_regular(path), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
