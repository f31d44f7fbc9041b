"""How much one principal may ask for: requests a second, requests at once, and how long one may take to come."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A body of JSON; files are uploaded as they are, and their own limit is the sandbox's.
MOST_JSON = 16 * 1024 * 1024
MOST_UPLOAD = 8 * 1024**3
# A client that does not get its request across by then holds a connection for nothing.
REQUEST_S = 30.0


class TooMany(Exception):
    """More than may be asked for at this pace; `after_s` says when to come back."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True, kw_only=True)
class Limits:
    """A bucket of requests for each principal, which fills again as time passes, and how many are being answered."""

    per_s: float = 1000.0
    burst: float = 2000.0
    at_once: int = 256
    # For a request to come: its head, and its body; an upload, which may be long, must only never pause for so long.
    request_s: float = REQUEST_S
    now: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _running: Counter[str] = field(default_factory=Counter)

    def spend(self, name: str) -> None:
        """Take from the bucket, or raise TooMany."""
        now = self.now()
        bucket = self._buckets.setdefault(name, _Bucket(self.burst, now))
        bucket.left = min(self.burst, bucket.left + (now - bucket.at) * self.per_s)
        bucket.at = now
        if bucket.left < 1:
            raise TooMany(f"more than {self.per_s:g} requests a second", (1 - bucket.left) / self.per_s)
        bucket.left -= 1

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Count a request while it is answered, or raise TooMany."""
        if self._running[name] >= self.at_once:
            raise TooMany(f"more than {self.at_once} requests at once", 1.0)
        self._running[name] += 1
        try:
            yield
        finally:
            self._running[name] -= 1
