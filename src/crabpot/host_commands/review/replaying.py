"""A session as a story: its records in order, and with each call what it changed under review.

What changed is noted when a sandbox comes to rest after a call. So what calls at the same time changed, or one right
after the other, is told with the call in whose time the file was last written.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError, LayerError, SessionError
from crabpot.host_commands.review import diffing
from crabpot.host_commands.review.holding import host_git, placed_as
from crabpot.host_commands.review.sides import is_kept, of_versions
from crabpot.layers import history

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabpot.host_commands.review.review import Review
    from crabpot.layers.history import Version
    from crabpot.layers.layer import Layer

    Record = dict[str, Any]
    # What a call made of each path: before, and after.
    Made = dict[str, tuple[Version | None, Version | None]]

# A file's time is that of a coarse clock, and a busy gateway records a call late: both make a change look too early for
# its call, never too late. A record's time is rounded.
_EARLY_S, _ROUNDED_S = 0.05, 0.001


async def story(review: Review, session: str, records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the chapters of a session, the oldest first; CrabpotError if it has none."""
    layer = _layer(review, session)
    mine, calls = await asyncio.to_thread(_sorted, review, layer, session, records)
    if not mine:
        raise CrabpotError(f"the audit log has no record of the session {session}; `crabpot audit tail` shows some")
    made = {} if layer is None else await asyncio.to_thread(_by_call, layer, calls)
    chapters = [_chapter(one) for one in mine if one["kind"] != "intent"]
    for chapter in chapters:
        changed = made.get(chapter["number"], {})
        chapter["changed"] = sorted(changed)
        chapter["unkept"] = []
        chapter["diff"] = ""
        if layer is not None and changed:
            chapter["unkept"] = sorted(path for path, both in changed.items() if not is_kept(layer, both))
            chapter["diff"] = await _diff(review, layer, changed, chapter["unkept"])
    return chapters


async def _diff(review: Review, layer: Layer, changed: Made, without: Sequence[str]) -> str:
    kept = {path: both for path, both in changed.items() if path not in without}
    if not kept:
        return ""
    before, after = (of_versions(layer, {path: both[at] for path, both in kept.items()}) for at in (0, 1))
    by = host_git(review.state, placed_as(review.settings, layer.session)[0], layer)
    return (await diffing.diff(layer, before, after, by)).decode("utf-8", "surrogateescape")


def _layer(review: Review, session: str) -> Layer | None:
    try:
        return review.layer(session)
    except (LayerError, SessionError):
        return None


def _sorted(
    review: Review, layer: Layer | None, session: str, records: Iterable[Record]
) -> tuple[list[Record], list[Record]]:
    """Return a session's records, and the calls of all sessions that share its layer."""
    shares: dict[str, bool] = {session: True}
    mine, calls = [], []
    for one in records:
        whose = one.get("session")
        if whose == session:
            mine.append(one)
        if layer is not None and one["kind"] == "call" and isinstance(whose, str):
            if whose not in shares:
                shares[whose] = _scope_key(review, whose) == layer.scope_key
            if shares[whose]:
                calls.append(one)
    return mine, calls


def _scope_key(review: Review, session: str) -> str | None:
    try:
        return placed_as(review.settings, session)[1].scope_key
    except SessionError:
        return None


def _by_call(layer: Layer, calls: Sequence[Record]) -> dict[int, Made]:
    made: dict[int, Made] = {}
    for path, changed_ns, before, after in history.noted(layer):
        call = _call_at(changed_ns / 1e9, calls)
        if call is not None:
            paths = made.setdefault(call["number"], {})
            paths[path] = (paths[path][0] if path in paths else before, after)
    return made


def _call_at(at: float, calls: Sequence[Record]) -> Record | None:
    """Return the call in whose time something changed; what ran in the background, with the last that began by then."""
    during = [one for one in calls if _began(one) - _EARLY_S <= at <= float(one["time"]) + _ROUNDED_S]
    nearest = min(during, key=lambda one: max(0.0, _began(one) - at), default=None)
    return nearest or max((one for one in calls if _began(one) <= at), key=_began, default=None)


def _began(call: Record) -> float:
    return float(call["time"]) - float(call["duration_ms"]) / 1000


def _chapter(record: Record) -> dict[str, Any]:
    return {
        "number": record["number"],
        "time": record["time"],
        "kind": record["kind"],
        "what": _what(record),
        "where": record.get("place"),
        "outcome": _outcome(record),
        "because": _because(record),
        "duration_ms": record.get("duration_ms"),
    }


def _what(record: Record) -> str:
    args = record.get("args") or {}
    if record["kind"] == "call":
        return f"{record['tool']} {args.get('command') or args.get('path') or args.get('pattern') or ''}".strip()
    if record["kind"] == "request":
        return f"asks for {record['shown'] or record.get('destination')}"
    if record["kind"] == "review":
        return f"{record['action']} of changes, by {record['by']}"
    if record["kind"] == "snapshot":
        return f"{record['action']} {record.get('name') or record['to']}, by {record['by']}"
    return str(record.get("destination") or record["kind"])


def _outcome(record: Record) -> str:
    if record["kind"] == "call":
        code = record.get("exit_code")
        return str(record["error"] or ("ok" if record["success"] else f"exit {code}"))
    if record["kind"] == "answer":
        return f"{'allowed' if record['allowed'] else 'denied'} by {record['by']}"
    if record["kind"] == "review":
        done = record.get("done") or {}
        return ", ".join(f"{told['count']} {name}" for name, told in done.items() if isinstance(told, dict)) or "begins"
    return str(record.get("answer") or "")


def _because(record: Record) -> str:
    because, rule = record.get("because"), record.get("rule")
    return f"{because} ({rule})" if because and rule else str(because or rule or "")
