"""The tables of the audit log, as a reader opens them, and the sessions in them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from crabpot.audit import FILE_NAME
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, text TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (key TEXT PRIMARY KEY, seen REAL NOT NULL);
"""
# Characters with a meaning in the URI of a database (sqlite.org/uri.html).
_QUOTED = str.maketrans({"%": "%25", "?": "%3f", "#": "%23"})


@contextmanager
def reading(state: str) -> Iterator[sqlite3.Connection]:
    """Open the log of a state folder for reading; one that was never written is empty."""
    file = os.path.join(state, FILE_NAME)
    try:
        with closing(_connect(file)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise CrabpotError(f"the audit log {file} cannot be read: {error}") from None


def sessions(state: str) -> list[str]:
    """List the sessions that ever called, the latest last."""
    with reading(state) as log:
        return [row[0] for row in log.execute("SELECT key FROM sessions ORDER BY seen")]


def opened(file: str, *, any_thread: bool = False) -> sqlite3.Connection:
    """Open a log that exists, only to read it."""
    path = f"file:{file.translate(_QUOTED)}?mode=ro"
    return sqlite3.connect(path, uri=True, isolation_level=None, check_same_thread=not any_thread)


def _connect(file: str) -> sqlite3.Connection:
    if os.path.exists(file):
        log = opened(file)
        try:
            # The file is made before its tables, and those together: a reader in between finds none at all.
            if log.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return log
        except BaseException:
            log.close()
            raise
        log.close()
    empty = sqlite3.connect(":memory:", isolation_level=None)
    empty.executescript(SCHEMA)
    return empty
