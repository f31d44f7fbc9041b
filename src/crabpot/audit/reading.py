"""Read the audit log, database and volumes: the last records, one, all, the sessions seen, whether the chain holds."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crabpot.audit import FILE_NAME, volumes
from crabpot.audit.chain import START, first_break
from crabpot.audit.retention import start_of
from crabpot.audit.store import SCHEMA
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Wanted = Callable[[dict[str, Any]], bool]


class AuditReader:
    """Reads one state folder's log; a log that was never written is empty."""

    def __init__(self, state: str) -> None:
        self._file = os.path.join(state, FILE_NAME)
        self._folder = os.path.join(state, volumes.FOLDER)

    def last(self, count: int, *, before: int | None = None, wanted: Wanted | None = None) -> list[dict[str, Any]]:
        """Give the last records that are wanted, of those before a number, oldest first."""
        found: list[dict[str, Any]] = []
        with self._reading() as log:
            for row in self._backwards(log, before) if count > 0 else ():
                record = _shown(row)
                if wanted is None or wanted(record):
                    found.append(record)
                    if len(found) == count:
                        break
        return found[::-1]

    def one(self, number: int) -> dict[str, Any] | None:
        """Give one record, or None."""
        with self._reading() as log:
            row = next(self._backwards(log, number + 1), None)
            return None if row is None or row[0] != number else _shown(row)

    def all(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Give every record behind a number, oldest first; one moment of a log that may be written meanwhile."""
        with self._reading() as log:
            log.execute("BEGIN")
            for row in self._forwards(log):
                if row[0] > after:
                    yield _shown(row)

    def _forwards(self, log: sqlite3.Connection) -> Iterator[volumes.Row]:
        first = log.execute("SELECT min(number) FROM records").fetchone()[0]
        start = start_of(log)[0]
        for volume in volumes.listed(self._folder):
            # A volume that was written just before a crash holds what the database holds as well.
            if volume.last > start and (first is None or volume.first < first):
                yield from volume.rows()
        yield from log.execute("SELECT number, text, hash FROM records ORDER BY number")

    def _backwards(self, log: sqlite3.Connection, before: int | None) -> Iterator[volumes.Row]:
        end = 2**63 - 1 if before is None else before
        yield from log.execute("SELECT number, text, hash FROM records WHERE number < ? ORDER BY number DESC", (end,))
        first = log.execute("SELECT min(number) FROM records").fetchone()[0]
        for volume in reversed(volumes.listed(self._folder)):
            if volume.first < end and (first is None or volume.first < first):
                yield from reversed([row for row in volume.rows() if row[0] < end])

    def sessions(self) -> list[str]:
        """List the sessions that ever called, the latest last."""
        with self._reading() as log:
            return [row[0] for row in log.execute("SELECT key FROM sessions ORDER BY seen")]

    def verify(self) -> tuple[int, str | None]:
        """Count the records and say where the chain breaks, or None."""
        with self._reading() as log:
            # One transaction: a gateway may be writing, and its next record is no break.
            log.execute("BEGIN")
            head = log.execute("SELECT number, hash FROM head").fetchone() or (0, START)
            start = start_of(log)
            return max(0, head[0] - start[0]), first_break(self._forwards(log), (head[0], head[1]), start)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(self._connect()) as connection:
                yield connection
        except sqlite3.Error as error:
            raise CrabpotError(f"the audit log {self._file} cannot be read: {error}") from None

    def _connect(self) -> sqlite3.Connection:
        if os.path.exists(self._file):
            log = sqlite3.connect(f"file:{quote(self._file)}?mode=ro", uri=True, isolation_level=None)
            # The file is made before its tables, and those together: a reader in between finds none at all.
            if log.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return log
            log.close()
        empty = sqlite3.connect(":memory:", isolation_level=None)
        empty.executescript(SCHEMA)
        return empty


def _shown(row: volumes.Row) -> dict[str, Any]:
    try:
        return volumes.shown(row)
    except (ValueError, TypeError):
        raise CrabpotError(f"record {row[0]} is no record any more; see `crabpot audit verify`") from None
