"""Carry out steps on the host's folder, each by one rename, and take them back.

What a step replaces or removes goes to the staging folder under the step's number, in the same rename. So after a
crash the staging folder itself tells how far the work came, and nothing that the host had is ever missing.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.layers.changes import exchange
from crabpot.layers.changes.change import PERMISSIONS, identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.layers.changes.steps import Step
    from crabpot.layers.changes.tree import Tree

CHANGED = "it changed on the host while it was being applied"
_NOT_EMPTY = "the host has something in it that the layer does not know of"


def carry_out(steps: Iterable[Step], host: Tree, staged: int) -> list[Step]:
    """Carry out steps in order; return them, those that could not be done with the reason."""
    done = [_tried(step, host, staged) for step in steps]
    for step in done:
        if step.left is None and step.mode is not None:
            _set_mode(host, step.path, step.mode)
    return done


def _tried(step: Step, host: Tree, staged: int) -> Step:
    try:
        if step.kind == "remove":
            problem = _remove(step, host, staged)
        elif step.kind == "put":
            problem = _put(step, host, staged)
        else:
            problem = None if _is_expected(step, host.stat(step.path)) else CHANGED
    except OSError as error:
        # Another file system, a read-only one, a folder of somebody else's, a link that took a folder's place.
        blocked = error.errno in (errno.EEXIST, errno.ENOENT, errno.ELOOP, errno.ENOTDIR)
        problem = CHANGED if blocked else f"the host refused it: {error.strerror}"
    return step if problem is None else replace(step, left=problem)


def _remove(step: Step, host: Tree, staged: int) -> str | None:
    with host.parent(step.path) as (folder, name):
        exchange.move(name, folder, step.name, staged)
        problem = _problem_with_taken(step, staged)
        if problem is not None:
            exchange.move(step.name, staged, name, folder)
        return problem


def _put(step: Step, host: Tree, staged: int) -> str | None:
    with host.parent(step.path) as (folder, name):
        if step.old is None:
            exchange.move(step.name, staged, name, folder)
            return None
        exchange.swap(step.name, staged, name, folder)
        problem = _problem_with_taken(step, staged)
        if problem is not None:
            exchange.swap(step.name, staged, name, folder)
        return problem


def _problem_with_taken(step: Step, staged: int) -> str | None:
    """Return why what was taken from the host is not what was to be replaced, or None."""
    taken = os.stat(step.name, dir_fd=staged, follow_symlinks=False)
    if not _is_expected(step, taken):
        return CHANGED
    return _NOT_EMPTY if _holds_something(step.name, staged) else None


def _holds_something(name: str, folder: int) -> bool:
    """Return whether this is a folder that is not empty."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        return bool(os.listdir(handle))
    finally:
        os.close(handle)


def _is_expected(step: Step, facts: os.stat_result | None) -> bool:
    if facts is None or step.old is None:
        return facts is None and step.old is None
    # A folder's times and size change with what is in it.
    return facts.st_ino == step.old[0] if step.is_folder else identity(facts) == step.old


def _set_mode(host: Tree, path: str, mode: int) -> None:
    try:
        handle = host.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fchmod(handle, mode & PERMISSIONS)
    finally:
        os.close(handle)


def roll_back(steps: Iterable[Step], host: Tree, staged: int) -> list[str]:
    """Take back what was carried out, the last first; return the paths that somebody else changed meanwhile."""
    lost = []
    for step in reversed([*steps]):
        if step.mode_before is not None:
            _set_mode(host, step.path, step.mode_before)
        try:
            if not _taken_back(step, host, staged):
                lost.append(step.path)
        except OSError:
            lost.append(step.path)
    return lost


def _taken_back(step: Step, host: Tree, staged: int) -> bool:
    """Take back one step if it was carried out; return False if it cannot be."""
    if step.kind == "mode":
        return True
    aside = _inode(step.name, staged)
    if (step.kind == "remove" and aside is None) or (step.kind == "put" and aside == step.staged):
        return True
    with host.parent(step.path) as (folder, name):
        if step.kind == "remove":
            exchange.move(step.name, staged, name, folder)
            return True
        if _inode(name, folder) != step.staged:
            return False
        back = exchange.move if aside is None else exchange.swap
        back(name, folder, step.name, staged)
        if _holds_something(step.name, staged):
            # A folder of ours, in which somebody put something meanwhile.
            back(step.name, staged, name, folder)
            return False
        return True


def _inode(name: str, folder: int) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None
