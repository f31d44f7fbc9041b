"""Read a copy of the host's folder: what differs from the host as it was when it was copied."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

from crabpot.decide.gate import is_git
from crabpot.errors import LayerError
from crabpot.layers.changes import repository
from crabpot.layers.changes.change import PERMISSIONS, Found, kind_of
from crabpot.layers.changes.overlay import unreachable
from crabpot.layers.changes.tree import join
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

    Base = dict[str, list[Any]]
    """A path, and its type, size, mtime_ns, mode and digest or target when it was copied."""

_FILE = "base.json"
_LARGEST = 1 << 30


def base(layer: Layer) -> Base:
    """Return what the host's folder was when it was copied; LayerError if that cannot be read."""
    try:
        told = json.loads(read_regular(os.path.join(layer.path, _FILE), most=_LARGEST))["entries"]
        return {str(path): list(row) for path, row in told.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerError(f"what the layer {layer.path} began with cannot be read: {error}") from None


def write(layer: Layer, entries: Base) -> None:
    """Replace what the host's folder is taken to have been."""
    write_whole(os.path.join(layer.path, _FILE), json.dumps({"entries": entries}))


def differences(copy: Tree, host: Tree, began: Base) -> Iterator[Found]:
    """Yield each path at which the copy differs from what it began as."""
    seen: set[str] = set()
    yield from _present(copy, host, began, "", seen)
    for path in sorted(began.keys() - seen, key=lambda one: (-one.count("/"), one)):
        if is_git(path):
            if path == ".git":
                yield from repository.found(copy, host, path, None, host.stat(path))
        elif (old := host.stat(path)) is not None:
            yield Found(path=path, new=None, old=old)


def _present(copy: Tree, host: Tree, began: Base, path: str, seen: set[str]) -> Iterator[Found]:
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


def _is_as_before(copy: Tree, path: str, new: os.stat_result, row: list[Any] | None) -> bool:
    if row is None or new.st_mode & 0o7000 or not _is_plain(new):
        return False
    kind, size, mtime_ns, mode, told = row
    if kind != kind_of(new) or (kind != "link" and (new.st_mode ^ mode) & PERMISSIONS):
        return False
    if kind == "folder":
        return True
    if kind == "link":
        return bool(copy.target(path) == told)
    return bool(new.st_size == size) and (new.st_mtime_ns == mtime_ns or digest(copy, path) == told)


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


def row_of(tree: Tree, path: str) -> list[Any] | None:
    """Return what is to be known of a path of the host, as it is now."""
    facts = tree.stat(path)
    if facts is None or not _is_plain(facts):
        return None
    kind = kind_of(facts)
    told = tree.target(path) if kind == "link" else digest(tree, path) if kind == "file" else None
    return [kind, facts.st_size, facts.st_mtime_ns, facts.st_mode, told]


def is_conflict(facts: os.stat_result | None, row: list[Any] | None) -> bool:
    """Return whether the host has another thing at a path than when it was copied."""
    if facts is None or row is None:
        return (facts is None) != (row is None)
    kind, size, mtime_ns, mode = row[:4]
    if kind != kind_of(facts):
        return True
    if kind == "folder":
        return False
    return bool((facts.st_size, facts.st_mtime_ns) != (size, mtime_ns) or (facts.st_mode ^ mode) & PERMISSIONS)
