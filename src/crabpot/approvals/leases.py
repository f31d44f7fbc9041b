"""Leases: approvals that last, valid only for the very same request until revoked or expired."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.approvals.requests import Answer, Request

if TYPE_CHECKING:
    from crabpot.approvals.store import Store

_IN_FORCE = (
    "SELECT id, gateway, body, answer, granted_at, expires_at, keep, uses FROM leases"
    " WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lasting approval for one request, and for no other."""

    id: str
    request: Request
    answer: Answer
    granted_at: float
    expires_at: float | None
    keep: bool
    uses: int

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that is listed."""
        return {
            "id": self.id,
            "granted_at": self.granted_at,
            "expires_at": self.expires_at,
            "keep": self.keep,
            "uses": self.uses,
            "by": self.answer.by,
            "request": self.request.as_json(),
        }


class Leases:
    """The leases of one state folder, through one process's connection."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def take(self, request: Request) -> Lease | None:
        """Find the lease that covers exactly this request, and count its use."""
        now = time.time()
        # A lease granted in the future: the clock was set back, and nobody knows how much of its time has passed.
        rows = self._store.read(
            _IN_FORCE + " AND granted_at <= ? AND bound = ? AND (keep OR gateway = ?)",
            (now, now, request.bound, self._store.gateway),
        )
        return next((_lease(row) for row in rows if self._count(row[0])), None)

    def any_of(self, scope_key: str) -> bool:
        """Return whether some request of a scope may be covered by a lease."""
        found = self._store.read(
            _IN_FORCE + " AND json_extract(body, '$.scope_key') = ? LIMIT 1", (time.time(), scope_key)
        )
        return bool(found)

    def _count(self, lease_id: str) -> bool:
        with self._store.transaction() as db:
            # It may have been revoked since it was found.
            used = db.execute("UPDATE leases SET uses = uses + 1 WHERE id = ? AND revoked_at IS NULL", (lease_id,))
            return used.rowcount == 1

    def listed(self) -> list[Lease]:
        """List the leases in force, oldest first: not revoked, not expired, not bound to a gateway that has ended."""
        rows = self._store.read(_IN_FORCE + " ORDER BY rowid", (time.time(),))
        return [_lease(row) for row in rows if row[6] or self._store.lives(int(row[1]))]

    def revoke(self, lease_id: str) -> bool:
        """End a lease at once, whichever process uses it; return False if no lease in force has this id."""
        with self._store.transaction() as db:
            changed = db.execute(
                "UPDATE leases SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", (time.time(), lease_id)
            )
            return changed.rowcount == 1


def _lease(row: tuple[Any, ...]) -> Lease:
    return Lease(
        id=row[0],
        request=Request.from_json(json.loads(row[2])),
        answer=Answer(**json.loads(row[3])),
        granted_at=row[4],
        expires_at=row[5],
        keep=bool(row[6]),
        uses=row[7],
    )
