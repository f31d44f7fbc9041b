"""One call in flight: its answer, and its output on the way to whoever takes it."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crabpot.runner.core.frames import FrameError
from crabpot.wire.flow import Intake, Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Sink = Callable[[str, bytes], Awaitable[None]]

Answer = TypeVar("Answer")

_STREAMS = ("stdout", "stderr", "content")
# From here on pieces are joined: a window full of single bytes would take a hundred times its size in memory.
_MANY = 64


class InFlight(Generic[Answer]):
    """Lives from its frame until its answer. Without a sink its output is kept for the answer, up to a limit."""

    answer: asyncio.Future[Answer]
    # When it is looked at, by the loop's clock. None: it was cancelled, and has no time limit of its own any more.
    due: float
    timeout_s: float | None = None
    # For how long its clock may still be held, since when it is, and what was left on it then.
    spare_s = 0.0
    held_at: float | None = None
    left_s = 0.0
    input: Window | None = None
    _intake: Intake | None = None
    _arrived: asyncio.Event | None = None
    _ended = _discards = False

    def __init__(self, call_id: str, sink: Sink | None, *, keep: int, acknowledge: Callable[[str, int], None]) -> None:
        self.id = call_id
        self._keep = keep
        self._acknowledge = acknowledge
        # Its output by stream, where there is no sink.
        self.kept: dict[str, bytearray] = {}
        self._queue: deque[tuple[str, bytes | bytearray]] = deque()
        if sink is not None:
            self._arrived = asyncio.Event()

    @property
    def behind(self) -> bool:
        """Return whether output waits for the sink."""
        return bool(self._queue)

    def receive(self, stream: Any, data: bytes) -> None:
        """Take output; FrameError on what was not requested or exceeds the limit."""
        if stream not in _STREAMS:
            raise FrameError("output of an unknown stream")
        if self._intake is None:
            # Not through this object: a reference cycle would keep its output until the next garbage collection.
            self._intake = Intake(partial(self._acknowledge, self.id))
        self._intake.arrived(len(data))
        if self._arrived is not None and not self._discards:
            self._enqueue(stream, data)
            self._arrived.set()
            return
        self._intake.took(len(data))
        if self._discards:
            return
        if stream == "content":
            raise FrameError("content that was not requested")
        self.kept.setdefault(stream, bytearray()).extend(data)
        if sum(map(len, self.kept.values())) > self._keep:
            raise FrameError("more output than the limit of a result")

    def _enqueue(self, stream: str, data: bytes) -> None:
        queue = self._queue
        # Joined to the last piece of its stream, unless that is the first of all, which the sink is handling.
        for at in range(-1, -4, -1) if len(queue) >= _MANY else ():
            if queue[at][0] == stream:
                joined = queue[at][1]
                if isinstance(joined, bytes):
                    joined = bytearray(joined)
                    queue[at] = (stream, joined)
                joined += data
                return
        queue.append((stream, data))

    async def pump(self, sink: Sink) -> None:
        """Pass output on at the pace of the sink, until there is no more."""
        assert self._arrived is not None
        while True:
            while self._queue:
                stream, data = self._queue[0]
                await sink(stream, bytes(data))
                if self._discards:
                    return
                self._queue.popleft()
                assert self._intake is not None
                self._intake.took(len(data))
            if self._ended:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def end_output(self) -> None:
        """Note that no more output comes."""
        self._ended = True
        if self._arrived is not None:
            self._arrived.set()

    def discard(self) -> None:
        """Drop its output, which nobody wants any more; it is still acknowledged, since its end comes after it."""
        self._discards = True
        if self._intake is not None:
            self._intake.took(sum(len(data) for _, data in self._queue))
        self._queue.clear()
