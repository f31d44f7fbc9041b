"""Stage what will be put on the host: copied whole into one folder of the same file system, ours alone until it moves.

So a full disk is found before anything of the host's is touched, and each path is then replaced by one rename.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from crabpot.layers.changes.change import PERMISSIONS
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crabpot.layers.changes.steps import Journal, Step
    from crabpot.layers.changes.tree import Tree

_MOST_FLUSHED = 500
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")


@contextmanager
def staging(host: Tree, journal: Journal) -> Iterator[int]:
    """Open the staging folder."""
    handle = os.open(journal.staging, _FOLDER, dir_fd=host.fd)
    try:
        yield handle
    finally:
        os.close(handle)


def make(host: Tree, journal: Journal) -> None:
    """Make the staging folder, out of everybody else's sight."""
    os.mkdir(journal.staging, 0o700, dir_fd=host.fd)


def remove(host: Tree, journal: Journal) -> None:
    """Remove the staging folder and what was not used of it."""
    with suppress(FileNotFoundError):
        remove_tree(os.path.join(f"/proc/self/fd/{host.fd}", journal.staging))


def stage(  # noqa: PLR0913  what, from where, to where
    step: Step, source: Tree, path: str, host: Tree, folder: int, *, restored: bool
) -> int:
    """Copy what a step puts, with the permissions that it has there; return its inode."""
    with source.parent(path) as (above, name):
        facts = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(source.target(path), step.name, dir_fd=folder)
    elif stat.S_ISDIR(facts.st_mode):
        # Its own mode comes at the very end: until then things are put into it.
        os.mkdir(step.name, 0o700, dir_fd=folder)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(step.name, flags, 0o600, dir_fd=folder)
        try:
            _copy(source, path, facts, target)
            _keep_attributes(step, host, target)
        finally:
            os.close(target)
    if os.geteuid() == 0:
        # What an undo puts back is the host's own; what comes from a layer gets no owner of the layer's.
        owner = (facts.st_uid, facts.st_gid) if restored else _owner(step.path, host)
        os.chown(step.name, *owner, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(facts.st_mode):
        os.chmod(step.name, facts.st_mode & PERMISSIONS, dir_fd=folder)
    if restored and not stat.S_ISDIR(facts.st_mode):
        os.utime(step.name, ns=(facts.st_atime_ns, facts.st_mtime_ns), dir_fd=folder, follow_symlinks=False)
    return os.stat(step.name, dir_fd=folder, follow_symlinks=False).st_ino


def flush(steps: Sequence[Step], folder: int) -> None:
    """Bring what was staged to the disk, so that a power cut leaves no empty file in its place.

    Not for thousands of files: one by one they would take minutes. A killed process loses nothing either way.
    """
    if len(steps) > _MOST_FLUSHED:
        return
    for step in steps:
        if step.staged is None or not stat.S_ISREG(os.stat(step.name, dir_fd=folder, follow_symlinks=False).st_mode):
            continue
        handle = os.open(step.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _copy(source: Tree, path: str, facts: os.stat_result, target: int) -> None:
    # A sparse giant costs a few blocks in the layer; written byte by byte it would fill the disk.
    sparse = facts.st_blocks * 512 < facts.st_size
    at = 0
    for piece in source.content(path):
        if not sparse or piece.strip(b"\0"):
            written = 0
            while written < len(piece):
                written += os.pwrite(target, piece[written:], at + written)
        at += len(piece)
    os.truncate(target, at)


def _keep_attributes(step: Step, host: Tree, target: int) -> None:
    """Copy to a file the attributes of the one that it replaces, but for capabilities: those were another content's."""
    if step.old is None:
        return
    with suppress(OSError):
        handle = host.open(step.path, os.O_RDONLY)
        try:
            for name in os.listxattr(handle):
                if name.startswith(_KEPT_ATTRIBUTES):
                    os.setxattr(target, name, os.getxattr(handle, name))
        finally:
            os.close(handle)


def _owner(path: str, host: Tree) -> tuple[int, int]:
    """Return whose a path is, or would be: what is there keeps its owner, what is new gets that of its folder."""
    while (facts := host.stat(path)) is None:
        path = path.rpartition("/")[0]
    return facts.st_uid, facts.st_gid
