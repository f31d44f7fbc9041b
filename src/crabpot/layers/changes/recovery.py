"""Bring an apply or an undo to its end: completed once every step was carried out, taken back otherwise."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.layers.changes import applied, engine, settling, staging, steps, undoing
from crabpot.layers.changes.tree import Tree, opened

if TYPE_CHECKING:
    from crabpot.layers.changes.steps import Journal
    from crabpot.layers.layer import Layer


def recover(layer: Layer) -> None:
    """Bring to its end what a killed process left; call it while the layer is held and not mounted."""
    journal = steps.read(layer)
    if journal is None:
        return
    problem = layer.problem_with_folder()
    if problem is not None:
        raise LayerError(f"an apply was interrupted, and {problem}; put the folder back, and try again")
    with opened(layer.folder) as host:
        if journal.state == "done":
            finish(layer, journal, host)
            return
        if journal.state == "acting":
            _take_back(layer, journal, host)
        staging.remove(host, journal)
    steps.remove(layer)


def _take_back(layer: Layer, journal: Journal, host: Tree) -> None:
    with staging.staging(host, journal) as folder:
        lost = engine.roll_back(journal.steps, host, folder)
        # Moved there and back, a file has a new ctime, which is no change of anybody's.
        back = [step.path for step in journal.steps if step.path not in lost]
        stamps = {path: applied.stamp(host.stat(path)) for path in back}
        applied.add(layer, stamps)
        if journal.kind == "undo":
            undoing.restamp(layer, stamps)
        if lost:
            # Somebody changed these in the middle of it. What was there before is kept, not overwritten.
            kept = undoing.saved(layer, f"interrupted-{journal.id}")
            os.makedirs(kept, 0o700, exist_ok=True)
            for step in journal.steps:
                if step.path in lost:
                    undoing.take(step, folder, kept)


def finish(layer: Layer, journal: Journal, host: Tree) -> None:
    """Keep what was replaced, note what was written, and take out of the layer what is on the host now."""
    went = [step.path for step in journal.steps if step.left is None]
    if journal.kind == "apply":
        more: dict[str, Any] = settling.settle(layer, journal.id, went, host)
        with suppress(FileNotFoundError), staging.staging(host, journal) as folder:
            undoing.save(layer, journal, host, folder, more)
    else:
        manifest = undoing.last(layer)
        if manifest is not None and manifest["id"] == journal.more["undoes"]:
            settling.unsettle(layer, manifest, set(went), host)
            undoing.forget(layer, manifest, set(went))
    applied.add(layer, {path: applied.stamp(host.stat(path)) for path in went})
    staging.remove(host, journal)
    steps.remove(layer)
