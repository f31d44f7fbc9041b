"""A session as a story: its records in order, and with each call what it was the last to change under review.

A layer keeps the last state of each file, and when that came to be. So a file is told with the call that last changed
it; what an earlier call did to the same file is not kept.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError, LayerError, SessionError
from crabpot.layers.changes import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabpot.host_commands.review.review import Review
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

    Record = dict[str, Any]

# A record's time is when the call was recorded, and a file's is that of a coarse clock.
_SLACK_S = 0.05


async def story(review: Review, session: str, records: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the chapters of a session, the oldest first; CrabpotError if it has none."""
    mine = await asyncio.to_thread(lambda: [one for one in records if one.get("session") == session])
    if not mine:
        raise CrabpotError(f"the audit log has no record of the session {session}; `crabpot audit tail` shows some")
    layer = _layer(review, session)
    changed = {} if layer is None else await asyncio.to_thread(_by_call, layer, mine)
    chapters = [_chapter(one) for one in mine if one["kind"] != "intent"]
    for chapter in chapters:
        paths = changed.get(chapter["number"], [])
        chapter["changed"] = paths
        chapter["diff"] = ""
        if paths and layer is not None:
            chapter["diff"] = (await review.diff(layer, paths)).decode("utf-8", "surrogateescape")
    return chapters


def _layer(review: Review, session: str) -> Layer | None:
    try:
        return review.layer(session)
    except (LayerError, SessionError):
        return None


def _by_call(layer: Layer, records: Sequence[Record]) -> dict[int, list[str]]:
    calls = [one for one in records if one["kind"] == "call"]
    found: dict[int, list[str]] = {}
    try:
        with reading.both(layer) as (content, host):
            for change in reading.judged(layer, content, host):
                at = _changed_s(content, change.path)
                call = next((one for one in calls if _is_during(at, one)), None)
                if call is not None:
                    found.setdefault(call["number"], []).append(change.path)
    except LayerError:
        return {}
    return found


def _is_during(at: float, call: Record) -> bool:
    ended = float(call["time"])
    return bool(ended - call["duration_ms"] / 1000 - _SLACK_S <= at <= ended + _SLACK_S)


def _changed_s(content: Tree, path: str) -> float:
    """Return when the layer last changed at a path; of what is gone without a trace, when its folder did."""
    while (facts := content.stat(path)) is None:
        path = path.rpartition("/")[0]
    return facts.st_ctime_ns / 1e9


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
