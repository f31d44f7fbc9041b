"""The live sandboxes, found by key: opened on demand, one at a time for each key, kept, replaced and ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.backends.wire import RunnerWire
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.backends.base import Opened
    from crabpot.model import Place

    Opener = Callable[[], Awaitable[Opened]]
    # A place and what shares it: no session can be named so that it finds the host's runner.
    Key = tuple[Place, str]

# A sandbox that is not ready by then never will be.
START_S = 20.0


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """One sandbox that answers."""

    key: Key
    version: str
    opened: Opened
    wire: RunnerWire
    started: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)

    @property
    def lost(self) -> bool:
        """Whether it stopped answering."""
        return self.wire.lost is not None

    async def end(self) -> None:
        """End it and everything in it."""
        self.wire.lose("it was closed")
        await self.opened.close()


class Fleet:
    """One sandbox for each key. A hundred first calls at once open one."""

    def __init__(self) -> None:
        self._live: dict[Key, Live] = {}
        self._opening: dict[Key, asyncio.Task[Live]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def find(self, key: Key, version: str) -> Live | None:
        """Give the sandbox of a key if it lives and is of this version: the path of nearly every call."""
        live = self._live.get(key)
        if live is None or live.version != version or live.wire.lost is not None:
            return None
        live.used = time.time()
        return live

    async def acquire(self, key: Key, version: str, open_: Opener) -> Live:
        """Find the sandbox of a key, or open it; one of an older version is replaced."""
        while True:
            live = self.find(key, version)
            if live is not None:
                return live
            task = self._opening.get(key)
            if task is None:
                if self._closed:
                    raise SandboxUnavailable("the gateway is closing")
                self._retire(key)
                task = asyncio.create_task(self._open(key, version, open_))
                self._opening[key] = task
                task.add_done_callback(lambda _: self._opening.pop(key, None))
            # Shielded: a caller that gives up must not take the sandbox from the others who wait for it.
            live = await asyncio.shield(task)
            if live.version == version:
                return live

    async def _open(self, key: Key, version: str, open_: Opener) -> Live:
        live = await start(key, version, open_)
        if self._closed:
            await live.end()
            raise SandboxUnavailable("the gateway is closing")
        self._live[key] = live
        return live

    def adopt(self, key: Key, live: Live) -> None:
        """Take in a sandbox that was opened ahead of its first call."""
        self._retire(key)
        live.key, live.used = key, time.time()
        self._live[key] = live

    def _retire(self, key: Key) -> None:
        live = self._live.pop(key, None)
        if live is not None:
            self._end_soon(live)

    def _end_soon(self, live: Live) -> None:
        task = asyncio.create_task(_end_when_idle(live))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def listed(self) -> list[Live]:
        """List the sandboxes that live."""
        return [live for live in self._live.values() if not live.lost]

    async def stop(self, key: Key) -> bool:
        """End the sandbox of a key; tell whether there was one."""
        live = self._live.pop(key, None)
        if live is None:
            return False
        await live.end()
        return True

    async def reap(self, stale: Callable[[Live], bool]) -> list[Key]:
        """End those that are lost, and those idle ones that `stale` names."""
        keys = [key for key, live in self._live.items() if live.lost or (not live.wire.busy and stale(live))]
        await asyncio.gather(*(self.stop(key) for key in keys))
        return keys

    async def close(self) -> None:
        """End everything; nothing is left when this returns."""
        self._closed = True
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        live, self._live = list(self._live.values()), {}
        await asyncio.gather(*(one.end() for one in live), *self._ending, return_exceptions=True)


async def start(key: Key, version: str, open_: Opener) -> Live:
    """Open a sandbox and wait for its runner; one that does not answer is ended before the error is told."""
    opened = await open_()
    try:
        wire = await RunnerWire.connect(opened.channel, opened.hello, timeout_s=START_S)
    except BaseException:
        await opened.close()
        raise
    return Live(key=key, version=version, opened=opened, wire=wire)


async def _end_when_idle(live: Live) -> None:
    """Let the calls in an outdated sandbox finish before it ends."""
    while live.wire.busy and not live.lost:
        await asyncio.wait({asyncio.create_task(live.wire.gone.wait())}, timeout=0.2)
    await live.end()
