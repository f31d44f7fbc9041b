"""The sandboxes as JSON: what stays the same of a row is spelled once, however often all of them are sent."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.doors.sandboxes import joined, shown
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.doors.kept import Rows
    from crabpot.sandboxes.live import Live

# What changes with every call.
_CHANGING = ("used", "busy")


class _Spelled(NamedTuple):
    name: str
    # Of a live one without its end, and without what changes.
    text: str
    # What the text was made of.
    facts: tuple[Any, ...]


class Listing:
    """Spells lists of sandboxes. One agent may have dozens that are busy, and a page asks for all of them."""

    def __init__(self) -> None:
        self._spelled: dict[str, _Spelled] = {}

    def of(self, kept: Rows, running: list[Live]) -> str:
        """Return `{"sandboxes": […]}`, and forget whatever is not in it."""
        live = {one.key[1]: one for one in running if one.key[0] is Place.SANDBOX}
        self._spelled = {key: self._one(key, kept.get(key), live.get(key)) for key in {**kept, **live}}
        rows = [
            (spelled.name, spelled.text if key not in live else _whole(spelled.text, live[key], keeps=key in kept))
            for key, spelled in self._spelled.items()
        ]
        rows.sort(key=itemgetter(0))
        return f'{{"sandboxes": [{", ".join([text for _, text in rows])}]}}'

    def _one(self, key: str, kept: dict[str, Any] | None, one: Live | None) -> _Spelled:
        facts = (kept, *_facts(one))
        known = self._spelled.get(key)
        if known is not None and known.facts == facts:
            return known
        row: dict[str, Any] = (kept or {}) if one is None else joined(kept, shown(one))
        if one is None:
            return _Spelled(str(row["name"]), json.dumps(row), facts)
        stays = json.dumps({name: value for name, value in row.items() if name not in _CHANGING})
        return _Spelled(str(row["name"]), stays.removesuffix("}"), facts)


def _whole(text: str, one: Live, *, keeps: bool) -> str:
    """Return the row of a live one, as `joined` has it."""
    return f'{text}, "used": {repr(one.used) if keeps else "null"}, "busy": {one.wire.busy}}}'


def _facts(one: Live | None) -> tuple[Any, ...]:
    """Return all that `shown` looks at, but for what changes with every call."""
    if one is None:
        return ()
    agent = None if one.scope is None else one.scope.agent
    return one.started, one.sandbox.pid, one.clauses, agent
