"""What is kept of one stream of output: its beginning and its end, with the cut between them marked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


# How UTF-8 marks a continuation byte, and the first bytes from which on a character has 2, 3 and 4 bytes.
_TOP_TWO, _INSIDE = 0xC0, 0x80
_LEADS = (0xC0, 0xE0, 0xF0)


class BothEnds:
    """At most `limit` bytes, half from either end: how it began and how it ended is what a reader needs.

    With `live` the first half is passed on as it comes instead of being kept. Without a limit everything is first half.
    """

    def __init__(self, limit: int | None, live: Callable[[bytes], None] | None = None) -> None:
        self._half = limit // 2 if limit is not None else None
        self._live = live
        self._head = bytearray()
        self._tail = bytearray()
        self._head_size = 0
        self._cut = 0

    @property
    def truncated(self) -> bool:
        """Return whether the middle is missing."""
        return self._cut > 0

    def add(self, data: bytes) -> None:
        """Take what the command wrote next."""
        room = len(data) if self._half is None else self._half - self._head_size
        if room > 0:
            first = data[:room]
            self._head_size += len(first)
            if self._live is None:
                self._head += first
            else:
                self._live(first)
            data = data[room:]
        if data and self._half is not None:
            self._tail += data
            excess = len(self._tail) - self._half
            if excess > 0:
                del self._tail[:excess]
                self._cut += excess

    def rest(self) -> bytes:
        """Return what has not been passed on live: all of it, or the mark of the cut and the last part."""
        head, tail = bytes(self._head), bytes(self._tail)
        if not self._cut:
            return head + tail
        whole_head, whole_tail = _without_split_end(head), _without_split_start(tail)
        cut = self._cut + len(head) - len(whole_head) + len(tail) - len(whole_tail)
        return b"%s\n[crabpot: %d bytes cut]\n%s" % (whole_head, cut, whole_tail)

    def take(self) -> tuple[bytes, bool]:
        """Return all that is kept and whether it was cut, and start over."""
        taken = self.rest(), self.truncated
        self._head, self._tail, self._head_size, self._cut = bytearray(), bytearray(), 0, 0
        return taken


def _without_split_start(data: bytes) -> bytes:
    """Drop the end of a UTF-8 character whose beginning was cut off."""
    for size in range(4):
        if size >= len(data) or data[size] & _TOP_TWO != _INSIDE:
            return data[size:]
    return data


def _without_split_end(data: bytes) -> bytes:
    """Drop the beginning of a UTF-8 character whose end was cut off."""
    for size in range(1, min(4, len(data) + 1)):
        lead = data[-size]
        if lead & _TOP_TWO != _INSIDE:
            length = 1 + sum(lead >= first for first in _LEADS)
            return data[:-size] if size < length else data
    return data
