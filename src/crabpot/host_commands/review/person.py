"""The person's repository, as its own files tell: whether there is one, and its branches. No git is started."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from crabpot.host_commands.git.names import is_id, is_ref
from crabpot.layers.changes.tree import Tree, join

_LARGEST = 16 << 20
_MOST = 100_000
_PACKED = re.compile(r"([0-9a-f]{40}) (refs/heads/\S+)")
_HEADS, _TAGS = ".git/refs/heads", ".git/refs/tags"


def problem_with(folder: str) -> str | None:
    """Return why commits cannot become branches here, or None."""
    git = os.path.join(folder, ".git")
    try:
        facts = os.lstat(git)
    except FileNotFoundError:
        above = _above(folder)
        if above is not None:
            return f"{folder} is part of the repository {above}, which the agent does not see: it can commit nothing"
        return f"{folder} is no git repository on the host, so commits cannot become branches there"
    if not stat.S_ISDIR(facts.st_mode):
        return f"{folder} is a work tree of a repository elsewhere, which the agent does not see: it can commit nothing"
    if os.path.exists(os.path.join(git, "reftable")):
        return f"{folder} keeps its branches in a reftable, which is not supported"
    return None


def _above(folder: str) -> str | None:
    at = os.path.dirname(os.path.abspath(folder))
    while at != "/":
        if os.path.lexists(os.path.join(at, ".git")):
            return at
        at = os.path.dirname(at)
    return None


def branches(tree: Tree) -> dict[str, str]:
    """Return the commits of the branches of a folder's own repository, by full name."""
    found = {}
    packed = (tree.read(".git/packed-refs", _LARGEST) or b"").decode("utf-8", "surrogateescape")
    for line in packed.splitlines():
        match = _PACKED.fullmatch(line.strip())
        if match and is_ref(match[2]):
            found[match[2]] = match[1]
    for path in _loose(tree, _HEADS):
        text = (tree.read(path, 100) or b"").decode("ascii", "replace").strip()
        name = path.removeprefix(".git/")
        if is_id(text) and is_ref(name):
            found[name] = text
    return found


def detached_head(tree: Tree) -> str | None:
    """Return the commit at which a repository's HEAD stands, or None if it is on a branch."""
    text = (tree.read(".git/HEAD", 1000) or b"").decode("ascii", "replace").strip()
    return text if is_id(text) else None


def may_have_commits(content: Tree, host: Tree, *, overlay: bool) -> bool:
    """Return whether a layer has branches, tags or a HEAD of its own; an overlay has only what was written."""
    if detached_head(content) not in (None, detached_head(host)):
        return True
    if overlay:
        return content.stat(".git/packed-refs") is not None or bool(_loose(content, _HEADS) or _loose(content, _TAGS))
    packed = [tree.read(".git/packed-refs", _LARGEST) for tree in (content, host)]
    return (
        packed[0] != packed[1]
        or any({*_loose(content, at)} - {*_loose(host, at)} for at in (_TAGS, _HEADS))
        or (branches(content) != branches(host))
    )


def _loose(tree: Tree, path: str) -> list[str]:
    found: list[str] = []
    waiting = [path]
    while waiting and len(found) < _MOST:
        folder = waiting.pop()
        entries: dict[str, os.stat_result] = {}
        with suppress(OSError):
            entries = tree.entries(folder)
        for name, facts in entries.items():
            inner = join(folder, name)
            if stat.S_ISDIR(facts.st_mode):
                waiting.append(inner)
            elif stat.S_ISREG(facts.st_mode):
                found.append(inner)
    return found
