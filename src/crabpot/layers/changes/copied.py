"""Read a copy of the host's folder: what differs from the host as it was when it was copied."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING

from crabpot.decide.gate import is_git
from crabpot.layers import copying
from crabpot.layers.changes import repository
from crabpot.layers.changes.change import PERMISSIONS, Found, kind_of
from crabpot.layers.changes.overlay import unreachable
from crabpot.layers.changes.tree import join
from crabpot.layers.copying import Base
from crabpot.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

    Rows = Mapping[str, Base]


def write(layer: Layer, rows: Rows) -> None:
    """Replace what the host's folder is taken to have been."""
    write_whole(os.path.join(layer.path, copying.BASE), json.dumps({"entries": rows}))


def differences(copy: Tree, host: Tree, began: Rows) -> Iterator[Found]:
    """Yield each path at which the copy differs from what it began as."""
    seen: set[str] = set()
    yield from _present(copy, host, began, "", seen)
    for path in sorted(began.keys() - seen, key=lambda one: (-one.count("/"), one)):
        if is_git(path):
            if path == ".git":
                yield from repository.found(copy, host, path, None, host.stat(path))
        elif (old := host.stat(path)) is not None:
            yield Found(path=path, new=None, old=old)


def _present(copy: Tree, host: Tree, began: Rows, path: str, seen: set[str]) -> Iterator[Found]:
    for name, new in sorted(copy.entries(path).items()):
        inner = join(path, name)
        seen.add(inner)
        if is_git(name):
            if inner not in began or inner == ".git":
                yield from repository.found(copy, host, inner, new, host.stat(inner))
            continue
        why = unreachable(copy, inner) if stat.S_ISDIR(new.st_mode) else None
        if why or not _is_as_before(copy, inner, new, began.get(inner)):
            yield Found(path=inner, new=new, old=host.stat(inner), refused=why)
        if why:
            # What it holds was not deleted: it is only out of sight.
            seen.update(one for one in began if one.startswith(f"{inner}/"))
        elif stat.S_ISDIR(new.st_mode):
            yield from _present(copy, host, began, inner, seen)


def _is_as_before(copy: Tree, path: str, new: os.stat_result, row: Base | None) -> bool:
    if row is None or new.st_mode & 0o7000 or not _is_plain(new) or row.type != kind_of(new):
        return False
    if row.type == "link":
        return copy.target(path) == row.content
    if (new.st_mode ^ row.mode) & PERMISSIONS:
        return False
    if row.type == "folder":
        return True
    return new.st_size == row.size and (new.st_mtime_ns == row.mtime_ns or digest(copy, path) == row.content)


def _is_plain(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode)


def digest(tree: Tree, path: str) -> str | None:
    """Return the SHA-256 of a file's content, or None if it cannot be read."""
    made = hashlib.sha256()
    try:
        for piece in tree.content(path):
            made.update(piece)
    except OSError:
        return None
    return made.hexdigest()


def row_of(tree: Tree, path: str) -> Base | None:
    """Return what is to be known of a path of the host, as it is now."""
    facts = tree.stat(path)
    if facts is None or not _is_plain(facts):
        return None
    kind = kind_of(facts)
    content = tree.target(path) if kind == "link" else digest(tree, path) if kind == "file" else ""
    times = (facts.st_size, facts.st_mtime_ns, facts.st_mode & PERMISSIONS)
    return Base(kind, *times, content or "", facts.st_ino, facts.st_ctime_ns)


def is_conflict(facts: os.stat_result | None, row: Base | None) -> bool:
    """Return whether the host has another thing at a path than when it was copied."""
    if facts is None or row is None:
        return (facts is None) != (row is None)
    if row.type != kind_of(facts):
        return True
    if row.type == "folder":
        return False
    return (facts.st_ino, facts.st_size, facts.st_mtime_ns) != (row.inode, row.size, row.mtime_ns)
