"""Choose which changes of a layer are applied, and say of each other one why it stays."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from crabpot.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from crabpot.layers.changes.change import Change

Why = Literal["gate", "conflict", "refused"]

_CONFLICT = "it changed on the host since the agent saw it; crabpot changes diff shows both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A change that stays in the layer."""

    path: str
    why: Why
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the shape of `changes apply --json`."""
        return {"path": self.path, "why": self.why, "reason": self.reason}


def limited(found: Sequence[Change], paths: Collection[str]) -> list[Change]:
    """Return the changes at or beneath some paths, or all of them; LayerError for a path at which nothing changed."""
    if not paths:
        return list(found)
    wanted = {path.strip("/") for path in paths}
    chosen = [one for one in found if any(is_within(one.path, path) for path in wanted)]
    for path in wanted:
        if not any(is_within(one.path, path) for one in chosen):
            raise LayerError(f"{path}: nothing changed there; `crabpot changes list` shows what did")
    return chosen


def choose(found: Sequence[Change], paths: Collection[str], *, gated: bool) -> tuple[list[Change], list[Left]]:
    """Return the changes to apply, and those that stay; a new folder comes with what is put into it."""
    by_path = {one.path: one for one in found}
    wanted = {one.path: one for one in limited(found, paths)}
    for path in list(wanted):
        for folder in above(path):
            one = by_path.get(folder)
            if one is not None and one.new is not None and wanted[path].new is not None:
                wanted.setdefault(folder, one)
    left = {path: stays for path, one in wanted.items() if (stays := _stays(one, gated=gated)) is not None}
    for path, one in sorted(wanted.items()):
        blocked = next(
            (left[one_above] for one_above in above(path) if one_above in left and _needs(by_path[one_above], one)),
            None,
        )
        if blocked is not None and path not in left:
            left[path] = Left(path=path, why=blocked.why, reason=f"{blocked.path} stays: {blocked.reason}")
    for path, one in wanted.items():
        # A folder that is deleted, or replaced by a file, can go only with all that is in it.
        if path not in left and one.old is not None and stat.S_ISDIR(one.old.st_mode) and not _keeps_folder(one):
            inner = next((stays for stays in left.values() if stays.path.startswith(f"{path}/")), None)
            if inner is not None:
                left[path] = Left(path=path, why=inner.why, reason=f"{inner.path} stays: {inner.reason}")
    return [one for path, one in wanted.items() if path not in left], [left[path] for path in wanted if path in left]


def _stays(one: Change, *, gated: bool) -> Left | None:
    if one.refused is not None:
        return Left(path=one.path, why="refused", reason=one.refused)
    if one.conflict:
        return Left(path=one.path, why="conflict", reason=_CONFLICT)
    if one.gate is not None and not gated:
        return Left(path=one.path, why="gate", reason=one.gate)
    return None


def _needs(above: Change, one: Change) -> bool:
    """Return whether a change can be applied only after the one of a folder above it."""
    return one.new is not None and above.new is not None and not _keeps_folder(above)


def _keeps_folder(one: Change) -> bool:
    return (
        one.old is not None and one.new is not None and stat.S_ISDIR(one.old.st_mode) and stat.S_ISDIR(one.new.st_mode)
    )


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is at or beneath a folder."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
