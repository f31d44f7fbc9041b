"""What servers announce while nobody calls them: changed words are compared at once, and then ever less often."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.servers.connection import ServerFailed, ServerRefused, ServerTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.servers.starting import Running

_LONGEST_S = 60.0


@dataclass(slots=True)
class Announcements:
    """What is done about the announcements of all servers of one gateway."""

    compare: Callable[[Running], Awaitable[None]]
    _tasks: dict[Running, asyncio.Task[None]] = field(default_factory=dict)

    def follow(self, running: Running) -> None:
        """Act on what a server announces from now on."""
        running.connection.on_change = lambda what: self._heard(running, what)
        if running.connection.stale:
            self._heard(running, "tools")

    def _heard(self, running: Running, what: str) -> None:
        if what == "resources":
            running.announced += 1
        elif running not in self._tasks:
            task = self._tasks[running] = asyncio.create_task(self._look(running))
            task.add_done_callback(lambda _: self._tasks.pop(running, None))

    async def _look(self, running: Running) -> None:
        """Compare until nothing is new. A server that announces without end waits twice as long each time."""
        while running.connection.stale and not running.lost:
            await asyncio.sleep(min(2.0 ** (running.looks - 1), _LONGEST_S) if running.looks else 0)
            running.looks += 1
            try:
                await self.compare(running)
            except (ServerFailed, ServerRefused, ServerTimeout, CrabpotError):
                # Its next call asks again, and says what is wrong.
                return

    async def close(self) -> None:
        """End every comparison."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
