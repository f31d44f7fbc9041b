"""The limits of a principal: requests per second, concurrent requests, and the time for one to arrive."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# For a JSON body; files are uploaded raw, and limited by the sandbox.
MOST_JSON = 16 * 1024 * 1024
MOST_UPLOAD = 8 * 1024**3
# A client that has not sent its request by then holds a connection for nothing.
REQUEST_S = 30.0


class TooMany(Exception):
    """Too many requests; `after_s` says when to retry."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True, kw_only=True)
class Pace:
    """How fast each principal may go on: beyond a burst it waits, and only it."""

    per_s: float
    burst: float
    now: Callable[[], float] = time.monotonic
    # When a principal that did nothing more would have its whole burst again.
    _full_at: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count what a principal did."""
        self._full_at[name] = max(self.now(), self._full_at.get(name, 0.0)) + amount / self.per_s

    def wait_s(self, name: str) -> float:
        """Return how long a principal has to wait, or less than nothing."""
        return self._full_at.get(name, 0.0) - self.now() - self.burst / self.per_s

    async def turn(self, name: str) -> None:
        """Wait for as long as this principal has to."""
        wait_s = self.wait_s(name)
        if wait_s > 0:
            await asyncio.sleep(wait_s)


@dataclass(slots=True, kw_only=True)
class Limits:
    """A token bucket of requests for each principal, and the number being answered."""

    per_s: float = 1000.0
    burst: float = 2000.0
    at_once: int = 256
    # For a request's head and body to arrive; an upload may take longer, but must not pause this long.
    request_s: float = REQUEST_S
    now: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)

    def spend(self, name: str) -> None:
        """Take one from the bucket, or raise TooMany."""
        now = self.now()
        bucket = self._buckets.setdefault(name, _Bucket(self.burst, now))
        bucket.left = min(self.burst, bucket.left + (now - bucket.at) * self.per_s)
        bucket.at = now
        if bucket.left < 1:
            raise TooMany(f"more than {self.per_s:g} requests per second", (1 - bucket.left) / self.per_s)
        bucket.left -= 1

    def running(self, name: str) -> Running:
        """Return a block that counts a request while it is answered, or raises TooMany."""
        return Running(self._running, name, self.at_once)


class Running:
    """A request that is being answered, counted during the block."""

    __slots__ = ("_all", "_most", "_name")

    def __init__(self, running: Counter[str], name: str, most: int) -> None:
        self._all, self._name, self._most = running, name, most

    def __enter__(self) -> None:
        """Count it, or raise TooMany."""
        if self._all[self._name] >= self._most:
            raise TooMany(f"more than {self._most} requests at once", 1.0)
        self._all[self._name] += 1

    def __exit__(self, *_: object) -> None:
        """Count it no longer."""
        self._all[self._name] -= 1
