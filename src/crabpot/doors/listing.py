"""The sandboxes as JSON: what stays the same of a row is spelled once, however often all of them are sent."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.doors.sandboxes import MOST_KEPT, joined, newest, shown
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.doors.kept import Rows
    from crabpot.sandboxes.live import Live

# What changes with every call.
_CHANGING = ("used", "busy")


class _Spelled(NamedTuple):
    name: str
    # All of the row.
    text: str
    # What the text was made of: all but what changes with every call, and that.
    facts: tuple[Any, ...]
    changing: tuple[float, int] | None
    # The row of a live one up to what changes.
    stays: str


class Listing:
    """Spells lists of sandboxes. One agent may have dozens that are busy, and a page asks for all of them."""

    def __init__(self) -> None:
        self._spelled: dict[str, _Spelled] = {}

    def of(self, kept: Rows, running: list[Live]) -> str:
        """Return `{"sandboxes": […]}`, and forget whatever is not in it; with `left_off` if that is not everything."""
        before, live = self._spelled, {one.key[1]: one for one in running if one.key[0] is Place.SANDBOX}
        found = {key: _live(before.get(key), kept.get(key), one) for key, one in live.items()}
        for key, row in newest(kept).items():
            if key not in live:
                known = before.get(key)
                found[key] = known if known is not None and known.facts == (row,) else _kept(row)
        self._spelled = found
        left_off = sum(key not in found for key in kept) if len(kept) > MOST_KEPT else 0
        more = f', "left_off": {left_off}' if left_off else ""
        return f'{{"sandboxes": [{", ".join([row.text for row in sorted(found.values(), key=_name)])}]{more}}}'


_name = attrgetter("name")


def _kept(row: dict[str, Any]) -> _Spelled:
    return _Spelled(str(row["name"]), json.dumps(row), (row,), None, "")


def _live(known: _Spelled | None, kept: dict[str, Any] | None, one: Live) -> _Spelled:
    """Return the row of a live one: the known one, or what is left of it."""
    facts = kept, one.started, one.sandbox.pid, one.clauses, None if one.scope is None else one.scope.agent
    changing = one.used, one.wire.busy
    if known is None or known.facts != facts:
        row = joined(kept, shown(one))
        stays = json.dumps({name: value for name, value in row.items() if name not in _CHANGING}).removesuffix("}")
        name = str(row["name"])
    elif known.changing == changing:
        return known
    else:
        name, stays = known.name, known.stays
    used = "null" if kept is None else repr(one.used)
    return _Spelled(name, f'{stays}, "used": {used}, "busy": {one.wire.busy}}}', facts, changing, stays)
