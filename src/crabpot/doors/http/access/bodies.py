"""The JSON bodies of a principal's requests: how much is held at once, how fast it arrives, and how many values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from crabpot.doors.http.access.limits import Pace, TooMany

_MIB = 1024**2
# The parser makes an object of each, in one go and with everybody waiting: `{},` for 16 MiB would take it seconds and
# 400 MiB. No tool takes this many.
MOST_VALUES = 100_000


class TooManyValues(Exception):
    """A body that would take the parser too long."""


@dataclass(slots=True, kw_only=True)
class Bodies:
    """What each principal has sent. Whoever sends faster than its pace waits; whoever holds too much is refused.

    Two hundred requests of which all but the last byte has come would otherwise hold gigabytes, and a stream of large
    ones would keep the gateway busy with nothing but reading them.
    """

    held_bytes: int = 64 * _MIB
    pace: Pace = field(default_factory=lambda: Pace(per_s=4.0 * _MIB, burst=64.0 * _MIB))
    _held: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, size: int) -> None:
        """Count what arrived; TooMany if the principal has too much in memory."""
        self.pace.add(name, size)
        self._held[name] += size
        if self._held[name] > self.held_bytes:
            raise TooMany(f"more than {self.held_bytes} bytes in requests at once", 1.0)

    def release(self, name: str, size: int) -> None:
        """Forget a request that has its answer."""
        self._held[name] -= size


class Body:
    """One body on its way in; only JSON has values to count."""

    def __init__(self, bodies: Bodies, name: str, *, is_json: bool = True) -> None:
        self._bodies = bodies
        self._name = name
        self._values = Values() if is_json else None
        # What has so few bytes has no more values than those, and is not looked at: nearly every body.
        self._first: bytearray | None = bytearray()
        self._size = 0

    async def turn(self) -> None:
        """Wait until this principal may send more."""
        await self._bodies.pace.turn(self._name)

    def take(self, data: bytes) -> None:
        """Count a piece; TooMany or TooManyValues if it is one too many."""
        self._size += len(data)
        self._bodies.add(self._name, len(data))
        if self._values is None:
            return
        if self._first is None:
            self._values.count(data)
            return
        self._first += data
        if len(self._first) > MOST_VALUES:
            data, self._first = bytes(self._first), None
            self._values.count(data)

    def end(self) -> None:
        """Forget it: its request has been answered."""
        self._bodies.release(self._name, self._size)


class Values:
    """Counts the values of JSON before it is parsed."""

    def __init__(self) -> None:
        self.seen = 0
        self._in_string = False
        self._escape = b""

    def count(self, data: bytes) -> None:
        """Count what begins or separates values outside of strings, without a loop over the bytes.

        On what is not JSON it may be wrong, but only after the byte at which the parser gives up.
        """
        data = self._escape + data
        backslashes = len(data) - len(data.rstrip(b"\\"))
        # A backslash at the end escapes the first byte of the next piece.
        self._escape = b"\\" if backslashes % 2 else b""
        plain = data[: len(data) - len(self._escape)].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = plain.split(b'"')
        for part in parts[self._in_string :: 2]:
            self.seen += part.count(b",") + part.count(b"[") + part.count(b"{")
        self._in_string ^= len(parts) % 2 == 0
        if self.seen > MOST_VALUES:
            raise TooManyValues
