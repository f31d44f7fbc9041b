"""What an apply replaced, kept until the next one: how it is saved, and the steps that put it back."""

from __future__ import annotations

import json
import os
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.layers.changes import applied
from crabpot.layers.changes.change import PERMISSIONS, identity
from crabpot.layers.changes.choosing import Left, above, is_within
from crabpot.layers.changes.steps import Step
from crabpot.state.files import write_whole
from crabpot.state.removal import remove_tree
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from crabpot.layers.changes.steps import Journal, Kind
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

FOLDER = "undo"
_MANIFEST = "manifest.json"
_LARGEST = 1 << 30
_CHANGED = "it changed on the host since it was applied"


def saved(layer: Layer, name: str) -> str:
    """Return the folder that holds what an apply replaced."""
    return os.path.join(layer.path, FOLDER, name)


def last(layer: Layer) -> dict[str, Any] | None:
    """Return the manifest of the last apply, or None."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(os.path.join(layer.path, FOLDER)), reverse=True):
            with suppress(OSError, ValueError):
                told: dict[str, Any] = json.loads(
                    read_regular(os.path.join(saved(layer, name), _MANIFEST), most=_LARGEST)
                )
                return told
    return None


def restamp(layer: Layer, stamps: Mapping[str, applied.Stamp]) -> None:
    """Take what the last apply wrote for untouched at some paths, after an undo was begun and taken back."""
    manifest = last(layer)
    if manifest is not None:
        for row in manifest["steps"]:
            row["wrote"] = stamps.get(row["path"], row["wrote"])
        write_whole(os.path.join(saved(layer, manifest["id"]), _MANIFEST), json.dumps(manifest))


def save(layer: Layer, journal: Journal, host: Tree, staged: int, more: dict[str, Any]) -> None:
    """Keep what was replaced, and what was written in its place; done again after a crash, it does the same."""
    folder = saved(layer, journal.id)
    os.makedirs(folder, 0o700, exist_ok=True)
    rows = []
    for step in journal.steps:
        if step.left is not None:
            continue
        if step.old is not None and step.kind != "mode":
            take(step, staged, folder)
        facts = host.stat(step.path)
        rows.append(
            {
                "number": step.number,
                "path": step.path,
                "kind": step.kind,
                "was": step.old is not None,
                "mode_before": _folder_mode(step),
                "wrote": applied.stamp(facts),
                "is_folder": facts is not None and stat.S_ISDIR(facts.st_mode),
            }
        )
    write_whole(os.path.join(folder, _MANIFEST), json.dumps({"id": journal.id, "steps": rows, **more}))
    for name in os.listdir(os.path.join(layer.path, FOLDER)):
        if name != journal.id:
            remove_tree(saved(layer, name))


def _folder_mode(step: Step) -> int | None:
    """Return the permissions that a folder had before, or None if there was none."""
    return step.old[3] & PERMISSIONS if step.is_folder and step.old is not None else None


def take(step: Step, staged: int, folder: str) -> None:
    """Move what was replaced out of the staging folder; where that is another file system, copy it."""
    target = os.path.join(folder, step.name)
    if step.staged is not None and _inode(staged, step.name) == step.staged:
        return
    try:
        os.rename(step.name, target, src_dir_fd=staged)
    except FileNotFoundError:
        return
    except OSError:
        _copy_over(f"/proc/self/fd/{staged}/{step.name}", target)


def _copy_over(source: str, target: str) -> None:
    facts = os.lstat(source)
    if stat.S_ISDIR(facts.st_mode):
        # It is empty: what was in it went before it.
        os.makedirs(target, exist_ok=True)
    elif stat.S_ISFIFO(facts.st_mode) or stat.S_ISSOCK(facts.st_mode):
        with suppress(FileExistsError):
            os.mkfifo(target)
    else:
        with suppress(FileNotFoundError):
            os.unlink(target)
        shutil.copy2(source, target, follow_symlinks=False)
    if not stat.S_ISLNK(facts.st_mode):
        shutil.copystat(source, target, follow_symlinks=False)
    if os.geteuid() == 0:
        os.chown(target, facts.st_uid, facts.st_gid, follow_symlinks=False)


def _inode(folder: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def forget(layer: Layer, manifest: dict[str, Any], reverted: Collection[str]) -> None:
    """Keep what was not put back for another undo, and drop the rest."""
    rows = [row for row in manifest["steps"] if row["path"] not in reverted]
    if rows:
        write_whole(os.path.join(saved(layer, manifest["id"]), _MANIFEST), json.dumps({**manifest, "steps": rows}))
    else:
        remove_tree(saved(layer, manifest["id"]))


def chosen(manifest: dict[str, Any], paths: Collection[str]) -> list[dict[str, Any]]:
    """Return the rows at or beneath some paths, or all; a folder that went comes back with what was in it."""
    rows: list[dict[str, Any]] = manifest["steps"]
    if not paths:
        return rows
    wanted = {path.strip("/") for path in paths}
    found = {row["path"] for row in rows if any(is_within(row["path"], path) for path in wanted)}
    for path in wanted:
        if not any(is_within(one, path) for one in found):
            raise LayerError(f"{path}: the last apply changed nothing there")
    gone = {row["path"] for row in rows if row["kind"] == "remove"}
    found |= {folder for path in found for folder in above(path) if folder in gone}
    return [row for row in rows if row["path"] in found]


def plan(rows: Sequence[dict[str, Any]], host: Tree) -> tuple[list[tuple[Step, int]], list[Left]]:
    """Return the steps that revert an apply, each with the number of what was saved, and what changed since."""
    planned: list[tuple[Step, int]] = []
    left: list[Left] = []
    for row in reversed(rows):
        facts = host.stat(row["path"])
        if not _is_ours(row, facts):
            left.append(Left(path=row["path"], why="conflict", reason=_CHANGED))
            continue
        old = None if facts is None else identity(facts)
        folder = facts is not None and stat.S_ISDIR(facts.st_mode)
        kind: Kind = "mode" if row["kind"] == "mode" else "put" if row["was"] else "remove"
        step = Step(
            number=len(planned),
            path=row["path"],
            kind=kind,
            old=old,
            is_folder=folder,
            mode=row["mode_before"],
            mode_before=None if facts is None or kind != "mode" else stat.S_IMODE(facts.st_mode),
        )
        planned.append((step, row["number"]))
    return planned, left


def _is_ours(row: dict[str, Any], facts: os.stat_result | None) -> bool:
    stamp, wrote = applied.stamp(facts), tuple(row["wrote"])
    # A folder's ctime changes with what is in it.
    return stamp[0] == wrote[0] if row["is_folder"] else stamp == wrote
