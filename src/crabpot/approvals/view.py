"""What is in the store, as whoever only looks sees it: on a connection of its own, from memory while nobody writes.

Whoever reads does not wait for those who write: an agent that asks without end has many requests stored, each with a
commit, while an operator looks at what waits.
"""

from __future__ import annotations

import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

from crabpot.approvals.requests import Request
from crabpot.state.sqlite import rows_at_once

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    # Each pending request with the number of its gateway.
    Pending = Collection[tuple[int, Request]]

_PENDING = "FROM requests WHERE state = 'pending' ORDER BY rowid"


class View:
    """One process's view of the store. Its methods may be called from any thread; they raise SQLite's errors."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._looking = threading.Lock()
        # The pending requests by their text, as of one version: an agent may have hundreds, and pages look often.
        self._read: tuple[int, dict[str, tuple[int, Request]]] = -1, {}

    def close(self) -> None:
        """Close the connection."""
        with self._looking:
            self._db.close()

    def rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query."""
        with self._looking:
            return self._fetch(query, values)

    def pending(self) -> Pending:
        """Return what is pending and of which gateway, from memory while nobody has written anything."""
        with self._looking:
            seen, before = self._read
            version = self._version()
            if version != seen:
                # What is written between the two queries is read now, and read once more at the next look.
                rows = rows_at_once(self._db, "body, gateway", _PENDING)
                found = {body: before.get(body) or (gateway, parsed(body)) for body, gateway in rows}
                self._read = version, found
            return self._read[1].values()

    def known(self) -> Pending | None:
        """Return the same if it is in memory; None if it would take a file, or another thread is looking."""
        if not self._looking.acquire(blocking=False):
            return None
        try:
            seen, found = self._read
            return found.values() if self._version() == seen else None
        finally:
            self._looking.release()

    def _version(self) -> int:
        """Return what is another whenever anybody has written; costs only a read of shared memory."""
        ((version,),) = self._fetch("PRAGMA data_version")
        return int(version)

    def _fetch(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with closing(self._db.execute(query, values)) as found:
            return found.fetchall()


def parsed(body: str) -> Request:
    """Return a request as it is stored."""
    return Request.from_json(json.loads(body))
