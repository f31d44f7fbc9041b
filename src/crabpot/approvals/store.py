"""The store of requests, answers and leases: SQLite in the state folder, shared by every process of its owner.

One conditional UPDATE answers a request and another uses the answer, so that of any number of racing processes only
one answers, and an answer is used once.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crabpot.approvals.liveness import Liveness
from crabpot.approvals.requests import GONE, NOBODY, Answer, denied, new_id
from crabpot.approvals.view import View, parsed
from crabpot.errors import CrabpotError
from crabpot.state.ownership import make_own
from crabpot.state.sqlite import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabpot.approvals.requests import Request
    from crabpot.approvals.view import Pending

FILE_NAME, LOCK_NAME = "approvals.sqlite", "approvals.lock"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS gateways (number INTEGER PRIMARY KEY AUTOINCREMENT, began REAL NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, gateway INTEGER NOT NULL, body TEXT NOT NULL, deadline REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'answered', 'used')),
    answer TEXT, answered_at REAL);
CREATE INDEX IF NOT EXISTS waiting ON requests (state) WHERE state = 'pending';
CREATE TABLE IF NOT EXISTS leases (
    id TEXT PRIMARY KEY, gateway INTEGER NOT NULL, body TEXT NOT NULL, answer TEXT NOT NULL, bound TEXT NOT NULL,
    granted_at REAL NOT NULL, expires_at REAL, keep INTEGER NOT NULL, uses INTEGER NOT NULL DEFAULT 0,
    revoked_at REAL);
CREATE INDEX IF NOT EXISTS bounds ON leases (bound);
"""
_SETTLE = "UPDATE requests SET state = 'answered', answer = ?, answered_at = ? WHERE id = ? AND state = 'pending'"
# The audit log keeps answers for good; here they stay a while for those who look later.
_KEPT_S = 7 * 24 * 3600.0
# And only so many: an agent could ask and withdraw without end. Looked at once in so many requests.
_MOST_KEPT, _LOOK_EVERY = 500, 100


class StoreUnavailable(CrabpotError):
    """The store cannot be read or written, so no request can be made."""


class Store:
    """One process's connections to the store. Its methods may be called from any thread."""

    def __init__(self, state: str) -> None:
        self.file = os.path.join(state, FILE_NAME)
        self.gateway: int | None = None
        self._turn = threading.RLock()
        self._seen: int | None = None
        self._added = 0
        try:
            make_own(state)
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
            self._liveness = Liveness(os.path.join(state, LOCK_NAME))
        except OSError as error:
            raise StoreUnavailable(f"{error.filename}: {error.strerror}") from None
        try:
            with self._liveness.alone():
                self._db, view = _two_of(self.file)
                self._view = View(view)
        except sqlite3.Error as error:
            self._liveness.close()
            raise StoreUnavailable(f"the store of approvals {self.file} cannot be opened: {error}") from None

    def close(self) -> None:
        """Close the connection; a gateway that announced itself no longer counts as alive."""
        with self._turn:
            self._view.close()
            self._db.close()
            self._liveness.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one exclusive transaction."""
        with self._turn:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                finally:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
            except sqlite3.Error as error:
                raise StoreUnavailable(f"the store of approvals {self.file} cannot be written: {error}") from None

    def announce(self) -> int:
        """Register as a gateway that asks. Requests of gateways that have ended are denied."""
        with self._turn:
            if self.gateway is None:
                with self.transaction() as db:
                    number = db.execute("INSERT INTO gateways (began) VALUES (?)", (time.time(),)).lastrowid
                    assert number is not None
                    self._liveness.announce(number)
                    self._forget(db)
                self.gateway = number
                self.pending()
            return self.gateway

    def _forget(self, db: sqlite3.Connection) -> None:
        """Remove what can never be used again, some time after its last use."""
        before = time.time() - _KEPT_S
        db.execute("DELETE FROM requests WHERE state != 'pending' AND answered_at < ?", (before,))
        db.execute("DELETE FROM leases WHERE revoked_at < ? OR expires_at < ?", (before, before))
        owners = db.execute("SELECT DISTINCT gateway FROM leases WHERE NOT keep").fetchall()
        gone = [owner for owner in owners if not self.lives(owner[0])]
        db.executemany("DELETE FROM leases WHERE NOT keep AND gateway = ?", gone)

    def lives(self, gateway: int) -> bool:
        """Return whether a gateway that announced itself is still alive."""
        return gateway == self.gateway or self._liveness.lives(gateway)

    # --- requests ---------------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Store a request of this gateway."""
        gateway = self.announce() if self.gateway is None else self.gateway
        row = (request.id, gateway, json.dumps(request.as_json()), request.deadline)
        with self.transaction() as db:
            db.execute("INSERT INTO requests (id, gateway, body, deadline) VALUES (?, ?, ?, ?)", row)
            self._added += 1
            if self._added % _LOOK_EVERY == 0:
                newest = "(SELECT max(rowid) FROM requests)"
                db.execute(f"DELETE FROM requests WHERE rowid <= {newest} - ? AND state = 'used'", (_MOST_KEPT,))  # noqa: S608  no value in it

    def pending(self) -> list[Request]:
        """List the requests that may still be answered, oldest first. Those that nobody waits for are denied."""
        with self._readable():
            stored = self._view.pending()
        live = self._alive(stored)
        for gateway, request in stored:
            if gateway not in live:
                self.settle(request.id, denied(GONE, "the gateway that asked has ended"))
        return _answerable(stored, live)

    def known(self) -> list[Request] | None:
        """Return what `pending` would if that is in memory; None if it takes a file, a write or another thread."""
        with self._readable():
            stored = self._view.known()
        if stored is None:
            return None
        live = self._alive(stored)
        return _answerable(stored, live) if all(gateway in live for gateway, _ in stored) else None

    def _alive(self, stored: Pending) -> set[int]:
        return {gateway for gateway in {gateway for gateway, _ in stored} if self.lives(gateway)}

    def find(self, request_id: str) -> Request | None:
        """Return a request by its id, pending or not."""
        rows = self.read("SELECT body FROM requests WHERE id = ?", (request_id,))
        return parsed(rows[0][0]) if rows else None

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a request; return False if it was answered, is too late or unknown, or its gateway has ended."""
        rows = self.read("SELECT gateway, deadline FROM requests WHERE id = ? AND state = 'pending'", (request_id,))
        if not rows:
            return False
        if not self.lives(rows[0][0]):
            self.settle(request_id, denied(GONE, "the gateway that asked has ended"))
            return False
        if time.time() >= rows[0][1]:
            return False
        return self.settle(request_id, answer)

    def settle(self, request_id: str, answer: Answer) -> bool:
        """Answer a pending request, whatever its deadline; return False if it was not pending."""
        with self.transaction() as db:
            changed = db.execute(_SETTLE, (json.dumps(answer.as_json()), time.time(), request_id))
            return changed.rowcount == 1

    def withdraw(self, request_id: str) -> None:
        """Deny a request that nobody waits for any more; an answer that came before is never used."""
        refusal = json.dumps(denied(NOBODY, "the caller ended the call").as_json())
        with self.transaction() as db:
            db.execute(
                "UPDATE requests SET state = 'used', answer = coalesce(answer, ?),"
                " answered_at = coalesce(answered_at, ?) WHERE id = ? AND state != 'used'",
                (refusal, time.time(), request_id),
            )

    def settle_all(self, request_ids: Iterable[str], answer: Answer) -> None:
        """Answer those of these requests that are pending, in one transaction."""
        said, now = json.dumps(answer.as_json()), time.time()
        with self.transaction() as db:
            db.executemany(_SETTLE, [(said, now, one) for one in request_ids])

    def answered(self, request_ids: Iterable[str]) -> list[str]:
        """Return which of these are no longer pending."""
        with self._readable():
            waiting = {request.id for _, request in self._view.pending()}
        return [request_id for request_id in request_ids if request_id not in waiting]

    def use(self, request: Request) -> Answer | None:
        """Use the answer to a request of this gateway, once; the lease that it grants begins now."""
        with self.transaction() as db:
            where = (request.id, self.gateway)
            row = db.execute(
                "SELECT answer FROM requests WHERE id = ? AND gateway = ? AND state = 'answered'", where
            ).fetchone()
            if row is None:
                return None
            db.execute("UPDATE requests SET state = 'used' WHERE id = ? AND gateway = ?", where)
            answer = Answer(**json.loads(row[0]))
            # Whoever allowed more, by whatever door: what executes the agent's files is allowed once only.
            if answer.allowed and request.lasting and answer.grant in ("session", "minutes"):
                self._grant(db, request, answer)
            return answer

    def _grant(self, db: sqlite3.Connection, request: Request, answer: Answer) -> None:
        now = time.time()
        ends = None if answer.minutes is None else now + answer.minutes * 60
        db.execute(
            "INSERT INTO leases (id, gateway, body, answer, bound, granted_at, expires_at, keep)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                new_id(),
                self.gateway,
                json.dumps(request.as_json()),
                json.dumps(answer.as_json()),
                request.bound,
                now,
                ends,
                answer.keep,
            ),
        )

    # --- what others wrote ------------------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Return whether another process wrote since the last call; costs only a read of shared memory."""
        # Of the connection that writes: what this process wrote itself is no news.
        with self._turn, self._readable():
            ((version,),) = self._db.execute("PRAGMA data_version").fetchall()
        before, self._seen = self._seen, version
        return bool(before != version)

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query."""
        with self._readable():
            return self._view.rows(query, values)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store of approvals {self.file} cannot be read: {error}") from None


def _two_of(file: str) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    first = connect(file, _SCHEMA)
    try:
        return first, connect(file, _SCHEMA)
    except BaseException:
        first.close()
        raise


def _answerable(stored: Pending, live: set[int]) -> list[Request]:
    now = time.time()
    return [request for gateway, request in stored if gateway in live and request.deadline > now]
