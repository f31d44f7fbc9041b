"""How a database of the state folder is opened: shared by processes, and safe from a power cut."""

from __future__ import annotations

import sqlite3

_BUSY_S = 10.0


def connect(file: str, schema: str) -> sqlite3.Connection:
    """Open it, and make its tables where it has none; two may do so at once, so each is made IF NOT EXISTS.

    Full synchronisation: a record that was waited for, and an answer that somebody acted upon, survive a power cut.
    """
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(f"BEGIN IMMEDIATE; {schema} COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
