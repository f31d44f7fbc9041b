"""Read the audit log: the last records, one record, the sessions seen, and whether the chain holds."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crabpot.audit import FILE_NAME
from crabpot.audit.chain import START, first_break
from crabpot.audit.store import SCHEMA
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Iterator


class AuditReader:
    """Reads one state folder's log; a log that was never written is empty."""

    def __init__(self, state: str) -> None:
        self._file = os.path.join(state, FILE_NAME)

    def last(self, count: int) -> list[dict[str, Any]]:
        """Give the last records, oldest first."""
        with self._reading() as log:
            rows = log.execute("SELECT number, text, hash FROM records ORDER BY number DESC LIMIT ?", (max(0, count),))
            return [_shown(row) for row in reversed(rows.fetchall())]

    def one(self, number: int) -> dict[str, Any] | None:
        """Give one record, or None."""
        with self._reading() as log:
            row = log.execute("SELECT number, text, hash FROM records WHERE number = ?", (number,)).fetchone()
            return None if row is None else _shown(row)

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
            count = log.execute("SELECT count(*) FROM records").fetchone()[0]
            rows = log.execute("SELECT number, text, hash FROM records ORDER BY number")
            return count, first_break(rows, (head[0], head[1]))

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


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return {"number": row[0], **json.loads(row[1]), "hash": row[2]}
    except (ValueError, TypeError):
        raise CrabpotError(f"record {row[0]} is no record any more; see `crabpot audit verify`") from None
