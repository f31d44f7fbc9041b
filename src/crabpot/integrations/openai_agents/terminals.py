"""A command of a model's that goes on: what it said since the model last asked, and what is typed into it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.python.results import CommandResult

# How a command ended that has no exit code of its own.
FAILED = 126


@dataclass(slots=True, kw_only=True, eq=False)
class Terminal:
    """A command that goes on while the model does something else."""

    task: asyncio.Task[CommandResult[bytes]] | None = None
    keys: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(16))
    output: deque[bytes] = field(default_factory=deque)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    notify: asyncio.Event = field(default_factory=asyncio.Event)

    async def typed(self) -> AsyncIterator[bytes]:
        """Yield what was written to it."""
        while True:
            yield await self.keys.get()

    async def take(self, _stream: str, data: bytes) -> None:
        """Keep output until the model asks."""
        async with self.lock:
            self.output.append(data)
        self.notify.set()

    def done(self) -> bool:
        """Return whether it has ended."""
        return self.task is not None and self.task.done()

    def exit_code(self) -> int | None:
        """Return how it ended, or None."""
        if self.task is None or not self.task.done():
            return None
        if self.task.cancelled() or self.task.exception() is not None:
            return FAILED
        result = self.task.result()
        return FAILED if result.exit_code is None else result.exit_code
