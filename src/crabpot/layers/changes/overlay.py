"""Read the upper folder of an overlay: what differs from the lower one, at the cost of what is in the upper.

The kernel marks there what is gone: a character device 0/0, or an empty file with an attribute, is a deleted name; a
folder that is opaque hides all that the lower one has.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crabpot.decide.gate import is_git
from crabpot.layers.changes import repository
from crabpot.layers.changes.change import DEEPEST, PERMISSIONS, TOO_DEEP, UNLISTED, Found
from crabpot.layers.changes.tree import join, same_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.changes.tree import Tree

_OPAQUE, _WHITEOUT, _ORIGIN = "user.overlay.opaque", "user.overlay.whiteout", "user.overlay.origin"


def differences(upper: Tree, lower: Tree, path: str = "", *, merged: bool = True) -> Iterator[Found]:
    """Yield each path at which the two differ; `merged` is whether the lower folder is seen through this one."""
    listed = upper.entries(path)
    for name, new in sorted(listed.items()):
        inner = join(path, name)
        old = lower.stat(inner) if merged else None
        if is_git(name):
            gone = is_whiteout(upper, inner, new)
            yield from repository.found(upper, lower, inner, None if gone else new, old)
        elif is_whiteout(upper, inner, new):
            yield from _deleted(lower, inner, old)
        elif stat.S_ISDIR(new.st_mode):
            yield from _folder(upper, lower, inner, new, old)
        else:
            yield from _file(upper, lower, inner, new, old)
    if merged and is_opaque(upper, path):
        for name, old in sorted(lower.entries(path).items()) if lower.stat(path) else ():
            if name not in listed and not is_git(name):
                yield from _deleted(lower, join(path, name), old)


def is_whiteout(upper: Tree, path: str, facts: os.stat_result) -> bool:
    """Return whether an entry says that the lower one is deleted."""
    if stat.S_ISCHR(facts.st_mode):
        return facts.st_rdev == 0
    empty = stat.S_ISREG(facts.st_mode) and facts.st_size == 0
    return empty and upper.attribute(path, _WHITEOUT) is not None


def is_opaque(upper: Tree, path: str) -> bool:
    """Return whether a folder hides all that the lower one has."""
    return upper.attribute(path, _OPAQUE) == b"y"


def is_copied_up(upper: Tree, path: str) -> bool:
    """Return whether a file came from the lower folder."""
    return upper.attribute(path, _ORIGIN) is not None


def _folder(upper: Tree, lower: Tree, path: str, new: os.stat_result, old: os.stat_result | None) -> Iterator[Found]:
    both = old is not None and stat.S_ISDIR(old.st_mode)
    why = unreachable(upper, path)
    if why or old is None or not both or (new.st_mode ^ old.st_mode) & PERMISSIONS:
        yield Found(path=path, new=new, old=old, refused=why)
    if why is None:
        yield from differences(upper, lower, path, merged=both)


def unreachable(tree: Tree, path: str) -> str | None:
    """Return why what is in a folder of a layer cannot be read, or None."""
    if path.count("/") >= DEEPEST:
        return TOO_DEEP
    try:
        os.close(tree.open(path, os.O_RDONLY | os.O_DIRECTORY))
    except OSError:
        return UNLISTED
    return None


def _file(upper: Tree, lower: Tree, path: str, new: os.stat_result, old: os.stat_result | None) -> Iterator[Found]:
    if old is not None and stat.S_ISDIR(old.st_mode):
        yield from (Found(path=inner, new=None, old=facts) for inner, facts in lower.below(path))
    elif old is not None and not (new.st_mode ^ old.st_mode) & ~0o7000 and is_same(upper, lower, path, new, old):
        return
    yield Found(path=path, new=new, old=old)


def is_same(one: Tree, other: Tree, path: str, new: os.stat_result, old: os.stat_result) -> bool:
    """Return whether two files of the same type and permissions hold the same."""
    if new.st_mode & 0o7000 & ~old.st_mode or new.st_size != old.st_size:
        return False
    if stat.S_ISLNK(new.st_mode):
        return one.target(path) == other.target(path)
    return stat.S_ISREG(new.st_mode) and same_content(one, other, path)


def _deleted(lower: Tree, path: str, old: os.stat_result | None) -> Iterator[Found]:
    if old is None:
        return
    if stat.S_ISDIR(old.st_mode):
        yield from (Found(path=inner, new=None, old=facts) for inner, facts in lower.below(path))
    yield Found(path=path, new=None, old=old)
