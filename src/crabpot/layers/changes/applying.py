"""Apply changes of a layer to the host's folder, or undo that: planned, staged, journalled, carried out."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.layers.changes import engine, recovery, staging, steps, undoing
from crabpot.layers.changes.change import PERMISSIONS, identity
from crabpot.layers.changes.choosing import Left, choose
from crabpot.layers.changes.reading import both, judged
from crabpot.layers.changes.steps import Journal, Step
from crabpot.layers.changes.tree import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from crabpot.layers.changes.change import Change
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

    Source = Callable[[Step], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply or an undo did."""

    applied: tuple[str, ...]
    left: tuple[Left, ...]
    undo: str | None
    """The id by which it can be undone; None if nothing was done."""

    def as_json(self, branches: Sequence[str] = ()) -> dict[str, Any]:
        """Return the shape of `changes apply --json`."""
        left = [one.as_json() for one in self.left]
        return {"applied": list(self.applied), "left": left, "branches": list(branches), "undo": self.undo}


def apply(layer: Layer, paths: Collection[str] = (), *, gated: bool = False) -> Applied:
    """Apply changes; call it while the layer is held and not mounted."""
    recovery.recover(layer)
    with both(layer) as (content, host):
        chosen, left = choose(judged(layer, content, host), paths, gated=gated)
        planned = _ordered(chosen)
        done = _run(layer, Journal(id=_new_id(), kind="apply", state="staging"), planned, content, host)
        return _result(done, left)


def undo(layer: Layer, paths: Collection[str] = ()) -> Applied:
    """Undo the last apply, or some paths of it, where nothing changed since; the layer is held and not mounted."""
    recovery.recover(layer)
    last = undoing.last(layer)
    if last is None:
        raise LayerError("nothing was applied that could be undone")
    with both(layer) as (_, host), opened(undoing.saved(layer, last["id"])) as saved:
        planned, left = undoing.plan(undoing.chosen(last, paths), host)
        journal = Journal(id=_new_id(), kind="undo", state="staging", more={"undoes": last["id"]})
        sources = {step.path: str(number) for step, number in planned}
        done = _run(layer, journal, [step for step, _ in planned], saved, host, sources)
        return replace(_result(done, left), undo=None)


def _result(done: Journal | None, left: Sequence[Left]) -> Applied:
    if done is None:
        return Applied(applied=(), left=tuple(left), undo=None)
    stayed = [Left(path=one.path, why=_why(one.left), reason=one.left) for one in done.steps if one.left is not None]
    went = tuple(sorted(one.path for one in done.steps if one.left is None))
    return Applied(applied=went, left=(*left, *stayed), undo=done.id if went else None)


def _why(reason: str) -> Any:
    return "conflict" if reason == engine.CHANGED else "refused"


def _new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


def _ordered(chosen: Sequence[Change]) -> list[Step]:
    """Return the steps: what goes, the deepest first; then what comes, folders before what is in them."""
    gone = sorted((one for one in chosen if one.new is None), key=lambda one: (-one.path.count("/"), one.path))
    come = sorted((one for one in chosen if one.new is not None), key=lambda one: (one.path.count("/"), one.path))
    return [_step(number, one) for number, one in enumerate((*gone, *come))]


def _step(number: int, one: Change) -> Step:
    was_folder = one.old is not None and stat.S_ISDIR(one.old.st_mode)
    folder = one.new is not None and stat.S_ISDIR(one.new.st_mode)
    return Step(
        number=number,
        path=one.path,
        kind="remove" if one.new is None else "mode" if folder and was_folder else "put",
        old=None if one.old is None else identity(one.old),
        is_folder=was_folder,
        mode=one.new.st_mode & PERMISSIONS if folder and one.new is not None else None,
        mode_before=one.old.st_mode & PERMISSIONS if folder and was_folder and one.old is not None else None,
    )


def _run(  # noqa: PLR0913, PLR0917  what is done, from where, to where
    layer: Layer,
    journal: Journal,
    planned: list[Step],
    content: Tree,
    host: Tree,
    sources: dict[str, str] | None = None,
) -> Journal | None:
    """Stage and carry out steps; whatever interrupts it is taken back, by this process or by the next."""
    if not planned:
        return None
    steps.write(layer, journal)
    try:
        staging.make(host, journal)
        with staging.staging(host, journal) as folder:
            staged = [_staged(step, content, host, folder, sources) for step in planned]
            staging.flush(staged, folder)
            steps.write(layer, journal := journal.with_steps(staged, "acting"))
            done = engine.carry_out(staged, host, folder)
            steps.write(layer, journal := journal.with_steps(done, "done"))
        recovery.finish(layer, journal, host)
    except OSError as error:
        recovery.recover(layer)
        raise LayerError(
            f"nothing was changed in {layer.folder}: {error.strerror or error}"
            f"{f' ({error.filename})' if error.filename else ''}; the changes are still in the layer"
        ) from None
    except BaseException:
        recovery.recover(layer)
        raise
    return journal


def _staged(step: Step, content: Tree, host: Tree, folder: int, sources: dict[str, str] | None) -> Step:
    if step.kind != "put":
        return step
    path = step.path if sources is None else sources[step.path]
    return replace(step, staged=staging.stage(step, content, path, host, folder, restored=sources is not None))
