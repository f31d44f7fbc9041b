"""Discard changes at some paths: what the agent sees there is the host's again."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crabpot.errors import LayerError
from crabpot.layers import copying
from crabpot.layers.changes import copied, overlay, recovery, staging
from crabpot.layers.changes.choosing import limited
from crabpot.layers.changes.reading import both, judged
from crabpot.layers.changes.steps import Step
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from crabpot.layers.changes.change import Change
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer


def discard(layer: Layer, paths: Collection[str]) -> list[str]:
    """Discard the changes at or beneath some paths; return all that were; call it while the layer is held."""
    recovery.recover(layer)
    with both(layer) as (content, host):
        found = limited(judged(layer, content, host), paths)
        wanted = sorted({path.strip("/") for path in paths})
        if layer.mechanism == "copy":
            _restore(layer, found, content, host)
        else:
            for path in wanted:
                _check(content, path)
            for path in wanted:
                _forget(layer, content, path)
    return [one.path for one in found]


def _check(content: Tree, path: str) -> None:
    """Refuse a path whose folder hides the host's: without it, the agent would see nothing there."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        facts = content.stat(above)
        if facts is not None and (not stat.S_ISDIR(facts.st_mode) or overlay.is_opaque(content, above)):
            raise LayerError(f"{path}: the agent deleted or made anew all of {above}; discard that")


def _forget(layer: Layer, content: Tree, path: str) -> None:
    if content.stat(path) is None:
        return
    aside = os.path.join(layer.path, f"discarded-{os.urandom(4).hex()}")
    os.mkdir(aside, 0o700)
    with content.parent(path) as (folder, name):
        os.rename(name, os.path.join(aside, "0"), src_dir_fd=folder)
    remove_tree(aside)


def _restore(layer: Layer, found: Sequence[Change], content: Tree, host: Tree) -> None:
    """Put the host's files back into a copy: what the agent made goes, the deepest first, then what it took comes."""
    rows = copying.base(layer)
    for one in sorted(found, key=lambda change: -change.path.count("/")):
        if one.new is not None and not (one.old is not None and _are_folders(one)):
            with content.parent(one.path) as (folder, name):
                (os.rmdir if stat.S_ISDIR(one.new.st_mode) else os.unlink)(name, dir_fd=folder)
    for number, one in enumerate(sorted(found, key=lambda change: change.path.count("/"))):
        rows.pop(one.path, None)
        if one.old is not None:
            _bring(Step(number=number, path=one.path, kind="put"), one, content, host)
            row = copied.row_of(host, one.path)
            rows |= {one.path: row} if row is not None else {}
    copied.write(layer, rows)


def _are_folders(one: Change) -> bool:
    return all(facts is not None and stat.S_ISDIR(facts.st_mode) for facts in (one.old, one.new))


def _bring(step: Step, one: Change, content: Tree, host: Tree) -> None:
    with content.parent(one.path) as (folder, name):
        if not _are_folders(one):
            staging.stage(step, host, one.path, content, folder, restored=True)
            os.rename(step.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        if one.old is not None and stat.S_ISDIR(one.old.st_mode):
            os.chmod(name, stat.S_IMODE(one.old.st_mode) | 0o700, dir_fd=folder)
