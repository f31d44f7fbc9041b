"""Keep the database small and the log as long as configured: old records move to volumes, older ones are retired."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.audit import volumes
from crabpot.audit.chain import START, Entry, append
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from crabpot.settings import Audit

_DAY_S = 86400.0
_EVERY_S = 3600.0
# Created when the first records are retired: the number and hash of the last of them, after which the chain begins.
_START_TABLE = """
CREATE TABLE IF NOT EXISTS start (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, hash TEXT NOT NULL)
"""


@dataclass(slots=True, kw_only=True)
class Retention:
    """What to keep, and when that was last enforced. Used by the log's writer, between its commits."""

    folder: str
    kept: Audit
    # Up to this record there is nothing to move. The database is asked when it is reached, and not at each commit.
    _wait_for: int = 0
    _next_s: float = field(default_factory=time.monotonic)

    def tend(self, connection: sqlite3.Connection, last: int) -> None:
        """Move and retire what is due after the last record. A failure leaves the log intact, and is retried later."""
        with suppress(OSError, sqlite3.Error, CrabpotError):
            if last >= self._wait_for:
                self._move(connection)
            if self.kept.keep_days is not None and time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + _EVERY_S
                self._retire(connection, time.time() - self.kept.keep_days * _DAY_S)

    def _move(self, connection: sqlite3.Connection) -> None:
        # Two separate lookups in the index; both in one query would read the whole table after every commit.
        ends = "SELECT (SELECT min(number) FROM records), (SELECT max(number) FROM records)"
        first, last = connection.execute(ends).fetchone()
        if first is None or last - first < self.kept.rotate:
            self._wait_for = (first or 0) + self.kept.rotate
            return
        # After a failure, as on a full disk, it is not retried for every record.
        self._wait_for = last + self.kept.rotate // 10
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have moved them since.
            first = connection.execute("SELECT min(number) FROM records").fetchone()[0]
            until = last - self.kept.rotate // 2
            if first is not None and first <= until:
                for left in volumes.listed(self.folder):
                    # Written just before a crash: the database still holds all its records.
                    if left.last >= first:
                        os.unlink(left.path)
                query = "SELECT number, text, hash FROM records WHERE number <= ? ORDER BY number"
                volumes.write(self.folder, first, until, connection.execute(query, (until,)))
                connection.execute("DELETE FROM records WHERE number <= ?", (until,))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        self._wait_for = 0

    def _retire(self, connection: sqlite3.Connection, before: float) -> None:
        """Remove whole volumes, then records, that are too old; the log itself records that, and up to which number."""
        old, last = [], None
        for volume in volumes.listed(self.folder):
            if os.stat(volume.path).st_mtime >= before:
                break
            old.append(volume)
            *_, last = volume.rows()
        else:
            last = _last_before(connection, before) or last
        if last is not None:
            _begin_after(connection, last[0], last[2])
        for volume in old:
            os.unlink(volume.path)


def start_of(connection: sqlite3.Connection) -> tuple[int, str]:
    """Return the number and hash after which the chain begins."""
    if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'start'").fetchone()[0]:
        return 0, START
    row = connection.execute("SELECT number, hash FROM start").fetchone()
    return (row[0], row[1]) if row else (0, START)


def _last_before(connection: sqlite3.Connection, before: float) -> volumes.Row | None:
    found = None
    for row in connection.execute("SELECT number, text, hash FROM records ORDER BY number"):
        if json.loads(row[1])["time"] >= before:
            break
        found = row
    return found


def _begin_after(connection: sqlite3.Connection, number: int, digest: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_START_TABLE)
        if number > start_of(connection)[0]:
            append(connection, [Entry({"kind": "retired", "until": number, "time": round(time.time(), 3)})])
            connection.execute("INSERT OR REPLACE INTO start VALUES (1, ?, ?)", (number, digest))
            connection.execute("DELETE FROM records WHERE number <= ?", (number,))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
