"""The audit log: SQLite in WAL mode, written by one thread in groups, so that a call waits only where it must."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

from crabpot.audit.chain import START, link, text_of
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE_NAME = "audit.db"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, text TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (key TEXT PRIMARY KEY, seen REAL NOT NULL);
"""
_BUSY_S = 10.0


class AuditUnavailable(CrabpotError):
    """The log cannot be written, so nothing that needs a record may run."""


class AuditLog:
    """Append-only. `record` never waits; `durable` waits until everything recorded so far is on disk."""

    def __init__(self, state: str) -> None:
        self._file = os.path.join(state, FILE_NAME)
        self._queue: queue.SimpleQueue[Mapping[str, Any] | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failed: str | None = None

    def open(self) -> None:
        """Make the file, private to its owner, and start the writer."""
        os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._thread = threading.Thread(target=self._write_all, name="crabpot-audit", daemon=True)
        self._thread.start()

    def record(self, **fields: Any) -> None:
        """Add a record; its time is now."""
        self._queue.put({"time": round(time.time(), 3), **fields})

    async def durable(self) -> None:
        """Wait until all that was recorded is on disk; AuditUnavailable if it cannot be."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not written.done():
                written.set_result(None)

        def tell() -> None:
            loop.call_soon_threadsafe(settle)

        self._queue.put(tell)
        await written
        if self._failed is not None:
            raise AuditUnavailable(f"the audit log {self._file} cannot be written: {self._failed}")

    def close(self) -> None:
        """Write what is left."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    # --- the writer's thread ----------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        connection = None
        ended = False
        while not ended:
            group, waiting, ended = self._next_group()
            try:
                if connection is None:
                    connection = connect(self._file)
                _append(connection, group)
                self._failed = None
            except sqlite3.Error as error:
                # A full disk must not end the writer: it tries again with the next group, and `durable` tells.
                self._failed = str(error)
            for tell in waiting:
                tell()
        if connection is not None:
            connection.close()

    def _next_group(self) -> tuple[list[Mapping[str, Any]], list[Callable[[], None]], bool]:
        """Take everything that waits: one commit for all of it."""
        group: list[Mapping[str, Any]] = []
        waiting: list[Callable[[], None]] = []
        item = self._queue.get()
        while True:
            if item is None:
                return group, waiting, True
            if callable(item):
                waiting.append(item)
            else:
                group.append(item)
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, waiting, False


def connect(file: str) -> sqlite3.Connection:
    """Open the log. Full synchronisation: a record that was waited for survives a power cut."""
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(_SCHEMA)
    return connection


def _append(connection: sqlite3.Connection, group: list[Mapping[str, Any]]) -> None:
    if not group:
        return
    # IMMEDIATE: another process may write the same log, and two must not follow the same record.
    connection.execute("BEGIN IMMEDIATE")
    try:
        number, digest = _head(connection)
        rows = []
        for record in group:
            text = text_of(record)
            number, digest = number + 1, link(digest, text)
            rows.append((number, text, digest))
        connection.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
        connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (number, digest))
        seen = {record["session"]: record["time"] for record in group if "session" in record}
        connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?)", seen.items())
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _head(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT number, hash FROM head").fetchone()
    return (row[0], row[1]) if row else (0, START)
