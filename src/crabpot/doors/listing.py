"""The sandboxes as JSON: each row is spelled once for as long as nothing in it changes, however often all are sent."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.doors.sandboxes import joined, shown
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.doors.kept import Rows
    from crabpot.sandboxes.live import Live


class _Spelled(NamedTuple):
    name: str
    text: str
    # What the text was made of.
    facts: tuple[Any, ...]


class Listing:
    """Spells lists of sandboxes. One agent may have dozens, and a page asks for all of them."""

    def __init__(self) -> None:
        self._spelled: dict[str, _Spelled] = {}

    def of(self, kept: Rows, running: list[Live]) -> str:
        """Return `{"sandboxes": […]}`, and forget whatever is not in it."""
        live = {one.key[1]: one for one in running if one.key[0] is Place.SANDBOX}
        self._spelled = {key: self._one(key, kept.get(key), live.get(key)) for key in {**kept, **live}}
        rows = sorted(self._spelled.values(), key=itemgetter(0))
        return f'{{"sandboxes": [{", ".join([row.text for row in rows])}]}}'

    def _one(self, key: str, kept: dict[str, Any] | None, one: Live | None) -> _Spelled:
        facts = (kept, *_facts(one))
        known = self._spelled.get(key)
        if known is not None and known.facts == facts:
            return known
        row = kept if one is None else joined(kept, shown(one))
        assert row is not None
        return _Spelled(str(row["name"]), json.dumps(row), facts)


def _facts(one: Live | None) -> tuple[Any, ...]:
    """Return all that `shown` looks at."""
    if one is None:
        return ()
    agent = None if one.scope is None else one.scope.agent
    return one.started, one.used, one.wire.busy, one.sandbox.pid, one.clauses, agent
