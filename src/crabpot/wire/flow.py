"""Flow control, the same on every hop: a sender is never ahead of the receiver by more than a window."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.runner.core.frames import ACK_EVERY, WINDOW, FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Well below the window: bytes that were taken and not yet acknowledged must never make the next piece wait.
PIECE = 256 * 1024


def pieces(data: bytes) -> Iterator[memoryview]:
    """Yield the pieces in which data is sent."""
    # What could be changed while it waits to be sent is copied.
    view = memoryview(data if isinstance(data, bytes) else bytes(data))
    for start in range(0, len(view), PIECE):
        yield view[start : start + PIECE]


class Window:
    """The sender's side."""

    __slots__ = ("_moved", "_room")

    def __init__(self) -> None:
        self._room = WINDOW
        self._moved = asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until this much may be sent."""
        while self._room < size:
            self._moved.clear()
            await self._moved.wait()
        self._room -= size

    def acknowledged(self, size: Any) -> None:
        """Note that the other side took some of what was sent; FrameError if it was never sent."""
        if type(size) is not int or not 0 < size <= WINDOW - self._room:
            raise FrameError("an acknowledgement of what was not sent")
        self._room += size
        self._moved.set()


class Intake:
    """The receiver's side; `acknowledge` tells the sender what was taken, in large steps."""

    __slots__ = ("_acknowledge", "_held", "_most", "_taken")

    def __init__(self, acknowledge: Callable[[int], None], *, most: int = WINDOW) -> None:
        self._acknowledge = acknowledge
        self._most = most
        self._held = 0
        self._taken = 0

    def arrived(self, size: int) -> None:
        """Count what came. A sender that exceeds the window could fill the memory: FrameError."""
        if not size:
            raise FrameError("an empty piece")
        self._held += size
        if self._held > self._most:
            raise FrameError("more than the window allows")

    def took(self, size: int) -> None:
        """Let the sender send as much again."""
        self._taken += size
        if self._taken >= ACK_EVERY:
            self._acknowledge(self._taken)
            self._held -= self._taken
            self._taken = 0
