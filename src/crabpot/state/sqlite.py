"""Open a database of the state folder: shared by processes, and safe from a power cut."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import Any

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


def rows_at_once(
    connection: sqlite3.Connection, columns: str, source: str, values: tuple[object, ...] = ()
) -> list[list[Any]]:
    """Return the rows of `SELECT columns source` in one step of SQLite, as one value.

    At each step Python lets go of its lock, and a thread that wants it back waits for the busy loop, row by row.
    """
    whole = f"CAST(json_group_array(json_array({columns})) AS BLOB)"
    query = f"SELECT {whole} FROM (SELECT * {source})"  # noqa: S608  no value in it
    with closing(connection.execute(query, values)) as found:
        # What is not UTF-8 is damage in one row, and must not hide the others.
        text: str = found.fetchone()[0].decode(errors="surrogateescape")
    rows: list[list[Any]] = json.loads(text)
    return rows


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
