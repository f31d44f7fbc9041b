"""Read the audit log: the last records, one record, the sessions seen, and whether the chain holds."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from crabpot.audit.chain import START, first_break
from crabpot.audit.store import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator


class AuditReader:
    """Reads one state folder's log; a log that was never written is empty."""

    def __init__(self, state: str) -> None:
        self._file = os.path.join(state, FILE_NAME)

    def last(self, count: int) -> list[dict[str, Any]]:
        """Give the last records, oldest first."""
        query = "SELECT number, text, hash FROM records ORDER BY number DESC LIMIT ?"
        return [_shown(row) for row in reversed(list(self._rows(query, (count,))))]

    def one(self, number: int) -> dict[str, Any] | None:
        """Give one record, or None."""
        return next((_shown(row) for row in self._rows("SELECT * FROM records WHERE number = ?", (number,))), None)

    def sessions(self) -> list[str]:
        """List the sessions that ever called, the latest last."""
        return [row[0] for row in self._rows("SELECT key FROM sessions ORDER BY seen", ())]

    def verify(self) -> tuple[int, str | None]:
        """Count the records and say where the chain breaks, or None."""
        head = next(iter(self._rows("SELECT number, hash FROM head", ())), (0, START))
        count = next(iter(self._rows("SELECT count(*) FROM records", ())), (0,))[0]
        rows = self._rows("SELECT number, text, hash FROM records ORDER BY number", ())
        return count, first_break(((row[0], row[1], row[2]) for row in rows), (head[0], head[1]))

    def _rows(self, query: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if not os.path.exists(self._file):
            return
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as connection:
            try:
                yield from connection.execute(query, values)
            except sqlite3.OperationalError as error:
                # The file is made before its tables; a reader in between finds none.
                if "no such table" not in str(error):
                    raise


def _shown(row: tuple[Any, ...]) -> dict[str, Any]:
    return {"number": row[0], **json.loads(row[1]), "hash": row[2]}
