"""Read the audit log from database and volumes: the last records, one, or all, and verify the chain."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crabpot.audit import volumes
from crabpot.audit.chain import START, first_break
from crabpot.audit.retention import start_of
from crabpot.audit.tables import reading
from crabpot.errors import CrabpotError
from crabpot.state.sqlite import rows_at_once

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    Wanted = Callable[[dict[str, Any]], bool]

_BATCH = 100


class AuditReader:
    """Reads the log of one state folder; a log that was never written is empty."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._folder = os.path.join(state, volumes.FOLDER)

    def last(
        self, count: int, *, after: int = 0, before: int | None = None, wanted: Wanted | None = None
    ) -> list[dict[str, Any]]:
        """Return the last matching records between two numbers, oldest first."""
        found: list[dict[str, Any]] = []
        with reading(self._state) as log:
            for row in self._backwards(log, before, batch=min(count, _BATCH)) if count > 0 else ():
                if row[0] <= after:
                    break
                record = _shown(row)
                if wanted is None or wanted(record):
                    found.append(record)
                    if len(found) == count:
                        break
        return found[::-1]

    def one(self, number: int) -> dict[str, Any] | None:
        """Return one record, or None."""
        with reading(self._state) as log:
            row = next(self._backwards(log, number + 1, batch=1), None)
            return None if row is None or row[0] != number else _shown(row)

    def all(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield every record after a number, oldest first: a snapshot of a log that may be growing."""
        with reading(self._state) as log:
            log.execute("BEGIN")
            for row in self._forwards(log):
                if row[0] > after:
                    yield _shown(row)

    def _forwards(self, log: sqlite3.Connection) -> Iterator[volumes.Row]:
        first = log.execute("SELECT min(number) FROM records").fetchone()[0]
        start = start_of(log)[0]
        for volume in volumes.listed(self._folder):
            # A volume written just before a crash holds records that are still in the database.
            if volume.last > start and (first is None or volume.first < first):
                yield from volume.rows()
        yield from log.execute("SELECT number, text, hash FROM records ORDER BY number")

    def _backwards(self, log: sqlite3.Connection, before: int | None, *, batch: int) -> Iterator[volumes.Row]:
        end = 2**63 - 1 if before is None else before
        yield from _newest(log, end, batch)
        first = log.execute("SELECT min(number) FROM records").fetchone()[0]
        for volume in reversed(volumes.listed(self._folder)):
            if volume.first < end and (first is None or volume.first < first):
                yield from reversed([row for row in volume.rows() if row[0] < end])

    def verify(self) -> tuple[int, str | None]:
        """Return the number of records, and where the chain breaks, or None."""
        with reading(self._state) as log:
            # One transaction: a gateway may be writing, and its next record is not a break.
            log.execute("BEGIN")
            head = log.execute("SELECT number, hash FROM head").fetchone() or (0, START)
            start = start_of(log)
            return max(0, head[0] - start[0]), first_break(self._forwards(log), (head[0], head[1]), start)


def _newest(log: sqlite3.Connection, end: int, batch: int) -> Iterator[volumes.Row]:
    """Yield the records of the database that come before a number, the newest first."""
    source = "FROM records WHERE number < ? ORDER BY number DESC LIMIT ?"
    # JSON cannot hold what somebody may have written in place of a text.
    columns = "number, CAST(text AS TEXT), CAST(hash AS TEXT)"
    while rows := rows_at_once(log, columns, source, (end, batch)):
        yield from ((number, text, digest) for number, text, digest in rows)
        end, batch = rows[-1][0], _BATCH


def _shown(row: volumes.Row) -> dict[str, Any]:
    try:
        return volumes.shown(row)
    except (ValueError, TypeError):
        raise CrabpotError(f"record {row[0]} is damaged; see `crabpot audit verify`") from None
