"""Limit how much a principal can write to the log: repetitions are counted, and each principal has an allowance.

Whoever shows a token for many agents is one principal: each id that it invents would have an allowance of its own.

What is not written on its own is counted, and the count is written: every record taken appears in the log exactly once,
on its own, in a `repeated`, or in a record of kind `withheld`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.audit.chain import Entry, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    Record = dict[str, Any]

# How often a count is written, and for how many different things of one principal at a time.
EVERY_S = 10.0
_MOST_OF_EACH = 128

_KIB, _MIB = 1024, 1024**2


class _Rate(NamedTuple):
    burst_bytes: int
    bytes_per_s: int


# By what an agent does: its sandboxes open, connect, ask, and call through a door. What touches the host and an answer
# that allows are always written: nothing may hide behind a flood.
_RATES = {
    "open": _Rate(4 * _MIB, 16 * _KIB),
    "connection": _Rate(4 * _MIB, 16 * _KIB),
    "request": _Rate(4 * _MIB, 16 * _KIB),
    "call": _Rate(64 * _MIB, 256 * _KIB),
}

# What an opening counts for, about as long as it is: spelling one only to measure it takes longer than all the rest.
_OPENING_BYTES = 2304


@dataclass(slots=True)
class _Counted:
    """Records that were not written on their own since the last count was written."""

    due: float
    whose: str
    record: Record
    count: int = 0
    size: int = 0
    # Whether all of them are of one agent.
    alike: bool = True
    since: float = 0.0
    until: float = 0.0

    def add(self, record: Record, size: int = 0) -> None:
        self.since = self.since if self.count else record["time"]
        self.until = record["time"]
        self.count += 1
        self.size += size
        self.alike = self.alike and record.get("agent") == self.record.get("agent")

    def as_json(self) -> dict[str, Any]:
        return {"count": self.count, "since": self.since, "until": self.until}


@dataclass(slots=True)
class _Bucket:
    """How much a principal may still write of one kind."""

    left: float
    at: float

    def take(self, size: int, rate: _Rate, now: float) -> bool:
        self.left = min(rate.burst_bytes, self.left + max(0.0, now - self.at) * rate.bytes_per_s)
        self.at = now
        if size > self.left:
            return False
        self.left -= size
        return True


class Coalescer:
    """The coalescer of one log. Not thread-safe."""

    def __init__(self) -> None:
        self._repeated: dict[tuple[Any, ...], _Counted] = {}
        self._withheld: dict[tuple[str, str], _Counted] = {}
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._of_each: Counter[str] = Counter()
        self._due = 0.0

    def take(self, record: Record, token: str | None = None) -> Iterator[Entry]:
        """Return what to write now: the record itself or nothing, and any counts that are due."""
        now = time.monotonic()
        if now >= self._due:
            yield from map(Entry, self.due())
        kind = _kind(record, token)
        if kind is None:
            yield Entry(record)
            return
        whose = f"agent {record['agent']}" if token is None else token
        key = _sameness(record)
        repeated = None if key is None else self._repeated.get(key)
        if repeated is not None:
            repeated.add(record)
            return
        # Its size counts, and the writer needs the same text.
        text = None if kind == "open" else text_of(record)
        if self._may_write(whose, record, kind, text, now):
            if key is not None and self._of_each[whose] < _MOST_OF_EACH:
                self._of_each[whose] += 1
                self._repeated[key] = _Counted(now + EVERY_S, whose, record)
            yield Entry(record, text)

    def _may_write(self, whose: str, record: Record, kind: str, text: str | None, now: float) -> bool:
        rate, size = _RATES[kind], _OPENING_BYTES if text is None else len(text)
        bucket = self._buckets.get((whose, kind))
        if bucket is None:
            bucket = self._buckets[whose, kind] = _Bucket(rate.burst_bytes, now)
        if bucket.take(size, rate, now):
            return True
        withheld = self._withheld.get((whose, kind))
        if withheld is None:
            withheld = self._withheld[whose, kind] = _Counted(now + EVERY_S, whose, record)
        withheld.add(record, len(text_of(record)) if text is None else size)
        return False

    def due(self, *, everything: bool = False) -> Iterator[Record]:
        """Return the counts to write: those that are due, or all of them."""
        now = time.monotonic()
        self._due = now + EVERY_S
        for key, counted in list(self._repeated.items()):
            if counted.count and (everything or now >= counted.due):
                yield {**counted.record, "time": round(time.time(), 3), "repeated": counted.as_json()}
                counted.count, counted.due = 0, now + EVERY_S
            elif now >= counted.due:
                del self._repeated[key]
                self._of_each -= Counter((counted.whose,))
            self._due = min(self._due, counted.due)
        for (whose, kind), counted in list(self._withheld.items()):
            if everything or now >= counted.due:
                agent = {"agent": counted.record["agent"]} if counted.alike and "agent" in counted.record else {}
                about = {"kind": "withheld", **agent, "principal": whose, "of": kind}
                yield {**about, "bytes": counted.size, **counted.as_json(), "time": round(time.time(), 3)}
                del self._withheld[whose, kind]
            else:
                self._due = min(self._due, counted.due)
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Drop allowances that are full again: a gateway that runs for months meets many agents."""
        for whose, bucket in list(self._buckets.items()):
            rate = _RATES[whose[1]]
            if bucket.left + (now - bucket.at) * rate.bytes_per_s >= rate.burst_bytes:
                del self._buckets[whose]


def _kind(record: Record, token: str | None) -> str | None:
    """Return which allowance a record uses; None for what is always written."""
    kind: str = record["kind"]
    if kind == "open":
        # Of the spares that the gateway opens on its own there are few.
        return None if token is None else kind
    if "agent" not in record or (kind == "call" and record.get("place") == "host"):
        return None
    if kind == "answer":
        return None if record["allowed"] else "request"
    return kind if kind in _RATES else None


def _sameness(record: Record) -> tuple[Any, ...] | None:
    """Return what makes two refusals the same: who, where to, and by which rule."""
    if record["kind"] != "connection" or record["answer"] not in ("refused", "failed"):
        return None
    return tuple(record.get(name) for name in ("agent", "session", "scope", "destination", "answer", "because"))
