"""The changes of a repository's own folder: never applied as files; what git obeys of them is told."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

from crabpot.layers.changes.change import Found
from crabpot.layers.changes.tree import same_content

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from crabpot.layers.changes.tree import Tree

NEVER = "a repository's own files are never applied; commits arrive as branches"
_HOOKS, _CONFIG = ".git/hooks", ".git/config"
_LARGEST = 1 << 20
_SECTION = re.compile(r"\s*\[\s*([^\]\s\"]+)")
# What `git init` writes.
_FRESH = re.compile(
    r"\[core\]$|(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks)\s*=",
    re.IGNORECASE,
)
# What an agent sets to commit, and what git itself sets for a branch or a remote. None of it arrives anyway.
_EVERYDAY = frozenset({"user", "branch", "remote", "init", "pull", "push", "advice"})


def found(
    layer: Tree, host: Tree, path: str, new: os.stat_result | None, old: os.stat_result | None
) -> Iterator[Found]:
    """Yield what to tell of a repository's folder; of one below the folder, only that it is there."""
    if path == ".git" and new is not None and stat.S_ISDIR(new.st_mode) and (old is None or stat.S_ISDIR(old.st_mode)):
        yield from _obeyed(layer, host)
    elif new is not None or old is not None:
        yield Found(path=path, new=new, old=old, refused=NEVER)


def _obeyed(layer: Tree, host: Tree) -> Iterator[Found]:
    config = layer.stat(_CONFIG)
    if config is not None and _tells(layer, host):
        yield Found(path=_CONFIG, new=config, old=host.stat(_CONFIG), refused=NEVER)
    hooks = layer.stat(_HOOKS)
    if hooks is None or not stat.S_ISDIR(hooks.st_mode):
        return
    try:
        listed = sorted(layer.entries(_HOOKS).items())
    except OSError:
        yield Found(path=_HOOKS, new=hooks, old=host.stat(_HOOKS), refused=NEVER)
        return
    for name, new in listed:
        path = f"{_HOOKS}/{name}"
        if not name.endswith(".sample") and not stat.S_ISCHR(new.st_mode) and not _same(layer, host, path, new):
            yield Found(path=path, new=new, old=host.stat(path), refused=NEVER)


def _same(layer: Tree, host: Tree, path: str, new: os.stat_result) -> bool:
    old = host.stat(path)
    return old is not None and old.st_size == new.st_size and same_content(layer, host, path)


def _tells(layer: Tree, host: Tree) -> bool:
    """Return whether a configuration differs in more than names, branches and remotes."""
    texts = [tree.read(_CONFIG, _LARGEST) for tree in (layer, host)]
    if texts[0] is None:
        return True
    ours, theirs = (_lines((text or b"").decode("utf-8", "replace")) for text in texts)
    return any(section not in _EVERYDAY and not _FRESH.match(line) for section, line in ours - theirs)


def _lines(text: str) -> set[tuple[str, str]]:
    section, kept = "", set()
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1].casefold()
        if line.strip():
            kept.add((section, line.strip()))
    return kept
