"""Open a database of the state folder: shared by processes, and safe from a power cut."""

from __future__ import annotations

import sqlite3
import time

_BUSY_S = 10.0
_POLL_S = 0.005


def connect(file: str, schema: str) -> sqlite3.Connection:
    """Open it, and create its tables if it has none; two may do so at once, so each is made IF NOT EXISTS.

    Full synchronisation: a record that was waited for, and an answer that somebody acted upon, survive a power cut.
    """
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous=FULL")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(f"BEGIN IMMEDIATE; {schema} COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a new file to write-ahead logging; SQLite does not wait for another that does the same."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return
