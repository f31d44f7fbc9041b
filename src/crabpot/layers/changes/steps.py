"""The steps of an apply or of an undo, each of one path, and the journal in which they survive a crash."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from crabpot.errors import LayerError
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from crabpot.layers.layer import Layer

Kind = Literal["put", "remove", "mode"]
State = Literal["staging", "acting", "done"]

_FILE = "journal"
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happens to one path of the host: something is put there, removed, or gets another mode."""

    number: int
    path: str
    kind: Kind
    old: list[int] | None = None
    """The identity of what is there before; None for nothing."""
    is_folder: bool = False
    """Whether what is there before is a folder."""
    mode: int | None = None
    """The permissions that a folder has at the end."""
    mode_before: int | None = None
    staged: int | None = None
    """The inode of what will be put there."""
    left: str | None = None
    """Why it was not done after all."""

    @property
    def name(self) -> str:
        """Its name in the staging folder."""
        return str(self.number)


_STEP = tuple(one.name for one in fields(Step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What is being done to the host's folder."""

    id: str
    kind: Literal["apply", "undo"]
    state: State
    steps: tuple[Step, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    """What the end needs: for an undo, the apply that it reverts."""

    @property
    def staging(self) -> str:
        """The folder, in the host's folder, through which everything passes."""
        return f".crabpot-{self.id}"

    def with_steps(self, steps: list[Step], state: State) -> Journal:
        """Return the journal in its next state."""
        return replace(self, steps=tuple(steps), state=state)


def write(layer: Layer, journal: Journal) -> None:
    """Write the journal, whole, to the disk."""
    told: dict[str, Any] = {one.name: getattr(journal, one.name) for one in fields(Journal)}
    # Not `asdict`, which copies all the way down: seconds, for 100,000 steps.
    told["steps"] = [{name: getattr(step, name) for name in _STEP} for step in journal.steps]
    write_whole(os.path.join(layer.path, _FILE), json.dumps(told))


def read(layer: Layer) -> Journal | None:
    """Return the journal that a killed process left, or None."""
    try:
        told = json.loads(read_regular(os.path.join(layer.path, _FILE), most=_LARGEST))
        steps = tuple(Step(**one) for one in told.pop("steps"))
        return Journal(steps=steps, **told)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerError(
            f"the journal {layer.path}/{_FILE} cannot be read ({error}); an apply was interrupted, and what it moved "
            f"is in {layer.folder}/.crabpot-*: look there, put it back, and remove the journal"
        ) from None


def remove(layer: Layer) -> None:
    """End the journal: what it describes is over."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(layer.path, _FILE))
