"""The audit log: SQLite in WAL mode, written in batches by one thread, so that a call waits only if it must."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.audit import FILE_NAME, volumes
from crabpot.audit.chain import Entry, append
from crabpot.audit.coalescing import EVERY_S, Coalescer
from crabpot.audit.recent import Recent
from crabpot.audit.retention import Retention
from crabpot.audit.tables import SCHEMA
from crabpot.decide.scope import OPERATOR, PRINCIPAL
from crabpot.errors import CrabpotError
from crabpot.scheduling.fair_loop import charged_to
from crabpot.settings import Audit
from crabpot.state.ownership import make_own
from crabpot.state.sqlite import connect

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from crabpot.audit.volumes import Row

    # Called on the writer's thread: why the records before could not be written, or None.
    Told = Callable[[str | None], None]
    Record = dict[str, Any]

# Records that nobody waits for are written together: one commit each would double the cost of a call.
_LINGER_S = 0.05
# This many calls are described together, or those of this short a time: each then takes half as long. Each may hold a
# mebibyte, and the loop does nothing else meanwhile, so that long work is done in slices.
_TOGETHER, _SOON_S, _SLICE_S = 8, 0.005, 0.001
# While the disk is full, this many are kept for later. Beyond that, only their number is.
_MOST_KEPT = 10_000
# A session that calls again and again is the latest already, and each time it is written costs as much as the record.
_SEEN_S = 1.0


class AuditUnavailable(CrabpotError):
    """The log cannot be written, so nothing that needs a record may run."""


class AuditLog:
    """An append-only log. `record` never waits; `durable` waits until everything so far, except counts, is on disk."""

    def __init__(self, state: str, kept: Audit = Audit()) -> None:
        self._file = os.path.join(state, FILE_NAME)
        self._retention = Retention(folder=os.path.join(state, volumes.FOLDER), kept=kept)
        self._queue: queue.SimpleQueue[Entry | Told | None] = queue.SimpleQueue()
        self._urgent = threading.Event()
        # How often a record was hastened, and how many of these times the writer has gathered, and has written.
        self._hastened = self._gathered = self._caught_up = 0
        self._turn = threading.Lock()
        self._undescribed: deque[tuple[float, str | None, Callable[[], Record]]] = deque()
        self._coalescer = Coalescer()
        self._thread: threading.Thread | None = None
        self.recent = Recent(self._file)

    def open(self) -> None:
        """Create the file, private to its owner, and start the writer."""
        try:
            make_own(os.path.dirname(self._file))
            # O_NOFOLLOW: a link here would make the log, and its mode, somebody else's file.
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise self._unavailable(str(error.strerror)) from None
        self._thread = threading.Thread(target=self._write_all, name="crabpot-audit", daemon=True)
        self._thread.start()

    def record(self, record: Record) -> None:
        """Add a record with the current time. What an agent does again and again is counted instead."""
        self._describe()
        self._add(record, time.time(), PRINCIPAL.get())

    def record_soon(self, describe: Callable[[], Record]) -> None:
        """Add a record of the current time in a moment, so that nobody waits while it is described.

        It is before all that is recorded after it, and part of what `durable`, `hasten` and `close` write.
        """
        loop, waiting = asyncio.get_running_loop(), self._undescribed
        waiting.append((time.time(), PRINCIPAL.get(), describe))
        if len(waiting) == 1:
            loop.call_at(loop.time() + _SOON_S, self._describe_some)
        elif len(waiting) == _TOGETHER:
            loop.call_soon(self._describe_some)
        elif len(waiting) > _TOGETHER:
            # Calls that are refused at once end without a turn of the loop.
            self._describe()

    def _describe(self) -> None:
        while self._undescribed:
            self._describe_one()

    def _describe_some(self) -> None:
        until = time.monotonic() + _SLICE_S
        try:
            while self._undescribed and time.monotonic() < until:
                self._describe_one()
        finally:
            # One that cannot be described keeps back none of the others.
            if self._undescribed:
                asyncio.get_running_loop().call_soon(self._describe_some)

    def _describe_one(self) -> None:
        try:
            now, token, describe = self._undescribed.popleft()
        except IndexError:
            return  # Another thread that records has taken it.
        # It may hold a mebibyte, and whoever comes next describes it.
        with charged_to(token):
            self._add(describe(), now, token)

    def _add(self, record: Record, now: float, token: str | None) -> None:
        record["time"] = round(now, 3)
        # Before the queue, which would grow as fast as an agent can be refused.
        with self._turn:
            for one in self._coalescer.take(record, None if token == OPERATOR else token):
                self._queue.put(one)

    def _record_counts(self, *, everything: bool = False) -> None:
        with self._turn:
            for one in self._coalescer.due(everything=everything):
                self._queue.put(Entry(one))

    async def durable(self) -> None:
        """Wait until everything recorded is on disk; AuditUnavailable if that fails."""
        if self._thread is None:
            raise self._unavailable("it is closed")
        self._describe()
        loop = asyncio.get_running_loop()
        written: asyncio.Future[str | None] = loop.create_future()

        def settle(failure: str | None) -> None:
            if not written.done():
                written.set_result(failure)

        def tell(failure: str | None) -> None:
            with suppress(RuntimeError):  # The loop has already ended.
                loop.call_soon_threadsafe(settle, failure)

        self._queue.put(tell)
        self._urgent.set()
        failure = await written
        if failure is not None:
            raise self._unavailable(failure)

    def hasten(self) -> None:
        """Have what was recorded written at once, and not with what follows in a moment; waits for nothing."""
        # In the next turn: whoever called has its result first.
        asyncio.get_running_loop().call_soon(self._hasten)

    def _hasten(self) -> None:
        self._describe()
        self._hastened += 1
        self._urgent.set()

    async def caught_up(self) -> None:
        """Wait until what was hastened can be read. A log that cannot be written is told to whoever needs it."""
        if self._hastened != self._caught_up:
            with suppress(AuditUnavailable):
                await self.durable()

    def close(self) -> None:
        """Write what is left; AuditUnavailable if that fails."""
        if self._thread is None:
            return
        self._describe()
        self._record_counts(everything=True)
        failures: list[str | None] = []
        self._queue.put(failures.append)
        self._queue.put(None)
        self._urgent.set()
        self._thread.join()
        self._thread = None
        self.recent.close()
        if failures[0] is not None:
            raise self._unavailable(failures[0])

    def _unavailable(self, why: str) -> AuditUnavailable:
        return AuditUnavailable(f"the audit log {self._file} cannot be written: {why}")

    # --- the writer's thread ----------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        connection = None
        unwritten: list[Entry] = []
        dropped = last = 0
        latest: dict[str, float] = {}
        ended = False
        while not ended:
            waiting, ended = self._gather(unwritten)
            gap = [_gap(dropped, unwritten[-1].record["time"])] if dropped else []
            try:
                if connection is None:
                    connection = connect(self._file, SCHEMA)
                written = _append(connection, unwritten + gap, latest)
                last = written[-1][0] if written else last
                unwritten, dropped, failure = [], 0, None
                self.recent.add(written)
                self._caught_up = self._gathered
            except Exception as error:  # noqa: BLE001  whatever a full disk makes fail must not end the writer
                failure = str(error)
                dropped += max(0, len(unwritten) - _MOST_KEPT)
                del unwritten[_MOST_KEPT:]
            for tell in waiting:
                tell(failure)
            if connection is not None and failure is None:
                self._retention.tend(connection, last)
        if connection is not None:
            connection.close()

    def _gather(self, unwritten: list[Entry]) -> tuple[list[Told], bool]:
        """Return everything that waits or arrives within a moment, for one commit. None marks the end."""
        waiting: list[Told] = []
        try:
            item = self._queue.get(timeout=EVERY_S)
        except queue.Empty:
            self._record_counts()
            return waiting, False
        if isinstance(item, Entry):
            self._urgent.wait(_LINGER_S)
        self._urgent.clear()
        self._gathered = self._hastened
        with suppress(queue.Empty):
            while item is not None:
                if isinstance(item, Entry):
                    unwritten.append(item)
                else:
                    waiting.append(item)
                item = self._queue.get_nowait()
        return waiting, item is None


def _gap(dropped: int, time_s: float) -> Entry:
    return Entry({"kind": "gap", "dropped": dropped, "time": time_s})


def _append(connection: sqlite3.Connection, group: list[Entry], latest: dict[str, float]) -> list[Row]:
    """Return the rows as written. `latest` is the session that called last, as written."""
    if not group:
        return []
    # IMMEDIATE: another process may write the same log, and two records must not follow the same one.
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows = append(connection, group)
        seen = {record["session"]: record["time"] for record, _ in group if "session" in record}
        known = all(key in latest and at <= latest[key] + _SEEN_S for key, at in seen.items())
        written = {} if known else seen
        connection.executemany("INSERT OR REPLACE INTO sessions VALUES (?, ?)", written.items())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if written:
        latest.clear()
        latest.update(written if len(written) == 1 else {})
    return rows
