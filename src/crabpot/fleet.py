"""The live sandboxes, found by key: opened on demand, one at a time for each key, kept, replaced and ended."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.backends.stream import GRACE_S
from crabpot.backends.wire import RunnerWire
from crabpot.errors import SandboxUnavailable
from crabpot.standstill import Standstill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.backends.base import Opened
    from crabpot.model import Place
    from crabpot.placement.scope import Scope
    from crabpot.settings import Prune

    # What was opened ahead of its first call is connected already.
    Opener = Callable[[], Awaitable["Opened | Connected"]]
    # A place and what shares it: no session can be named so that it finds the host's runner.
    Key = tuple[Place, str]

# A sandbox that is not ready by then never will be.
START_S = 20.0

# Each opening holds a few dozen descriptors for its moment; a burst must not run into `ulimit -n`.
_AT_ONCE = 32

_CLOSING = "the gateway is closing"


@dataclass(slots=True, kw_only=True, eq=False)
class Connected:
    """A sandbox whose runner was greeted and is ready."""

    opened: Opened
    wire: RunnerWire
    _freezes: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def lost(self) -> bool:
        """Whether it stopped answering."""
        return self.wire.lost is not None

    async def freeze(self) -> None:
        """Stop everything in it until it was thawed as often; SandboxLost if that cannot be done."""
        async with self._turn:
            self._freezes += 1
            if self._freezes == 1:
                self.wire.freeze()
                await self.opened.freeze()

    async def thaw(self) -> None:
        """Let it go on, unless somebody else froze it too; SandboxLost if it cannot."""
        async with self._turn:
            self._freezes -= 1
            if self._freezes == 0:
                await self.opened.thaw()
                self.wire.thaw()

    async def end(self) -> None:
        """End it and everything in it."""
        self.wire.lose("it was closed")
        await self.wire.conversations.ended()
        await self.opened.close()


@dataclass(slots=True, kw_only=True, eq=False)
class Live(Connected):
    """One that answers the calls of its key."""

    key: Key
    version: str
    prune: Prune
    writes: tuple[str, ...]
    # Set before its first call; a place on the host has none.
    scope: Scope | None = None
    started: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)

    def can_reach(self, folder: str) -> bool:
        """Tell whether it can change something in a folder of the host, or above it: a program looks there too."""
        wanted = os.path.realpath(folder)
        roots = [os.path.realpath(root) for root in self.writes]
        return any(os.path.commonpath([root, wanted]) in (root, wanted) for root in roots)

    async def end_when_quiet(self) -> None:
        """Let the calls in it finish before it ends."""
        await self.wire.quiet()
        await self.end()


class Fleet:
    """One sandbox for each key. A hundred first calls at once open one."""

    def __init__(self, *, start_s: float = START_S, grace_s: float = GRACE_S) -> None:
        self._start_s = start_s
        self._grace_s = grace_s
        self._live: dict[Key, Live] = {}
        self._opening: dict[Key, asyncio.Task[Live]] = {}
        self._ending: dict[asyncio.Task[None], Live] = {}
        self._stills: list[Standstill[Live]] = []
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._closed = False

    def find(self, key: Key, version: str) -> Live | None:
        """Give the sandbox of a key if it lives and is of this version: the path of nearly every call."""
        live = self._live.get(key)
        if live is None or live.version != version or live.wire.lost is not None:
            return None
        live.used = time.time()
        return live

    async def acquire(
        self, key: Key, version: str, open_: Opener, prune: Prune, *, writes: tuple[str, ...] = ()
    ) -> Live:
        """Find the sandbox of a key, or open it; one of an older version is replaced.

        `prune` says when it goes, `writes` what of the host it can change.
        """
        while True:
            live = self.find(key, version)
            if live is not None:
                return live
            task = self._opening.get(key)
            if task is None:
                if self._closed:
                    raise SandboxUnavailable(_CLOSING)
                self._retire(key)
                task = asyncio.create_task(self._open(key, version, open_, prune, writes))
                self._opening[key] = task
                task.add_done_callback(lambda done: self._opened(key, done))
            live = await self._opened_by(task)
            if live.version == version and not live.lost:
                return live

    async def _opened_by(self, task: asyncio.Task[Live]) -> Live:
        try:
            # Shielded: a caller that gives up must not take the sandbox from the others who wait for it.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                raise SandboxUnavailable(_CLOSING) from None
            raise

    def _opened(self, key: Key, task: asyncio.Task[Live]) -> None:
        del self._opening[key]
        if not task.cancelled():
            # Whoever waits is told; asking once keeps asyncio from logging a failure that nobody waited for.
            task.exception()

    async def _open(self, key: Key, version: str, open_: Opener, prune: Prune, writes: tuple[str, ...]) -> Live:
        async with self._slots:
            found = await open_()
        connected = found if isinstance(found, Connected) else await self.connect(found)
        opened, wire = connected.opened, connected.wire
        live = Live(key=key, version=version, opened=opened, wire=wire, prune=prune, writes=writes)
        try:
            await self._join(live)
        except BaseException:
            await live.end()
            raise
        self._live[key] = live
        return live

    async def _join(self, live: Live) -> None:
        """Freeze a sandbox that opens while others like it stand still, before it has its first call."""
        while late := [still for still in self._stills if live not in still]:
            for still in late:
                await still.take(live)
        if live.lost:
            raise SandboxUnavailable("the sandbox could not be frozen while a command runs on the host; try again")

    @asynccontextmanager
    async def frozen(self, which: Callable[[Live], bool]) -> AsyncIterator[None]:
        """Let nothing move in the sandboxes that `which` names, nor in those that open meanwhile."""
        still = Standstill(which)
        self._stills.append(still)
        try:
            async with still:
                # One that is ending may still run what it was sent.
                await asyncio.gather(*map(still.take, [*self._live.values(), *self._ending.values()]))
                yield
        finally:
            self._stills.remove(still)

    async def connect(self, opened: Opened) -> Connected:
        """Wait for a sandbox's runner; one that does not answer is ended before the error is told."""
        try:
            wire = await RunnerWire.connect(
                opened.channel, opened.hello, timeout_s=self._start_s, grace_s=self._grace_s
            )
        except BaseException:
            await opened.close()
            raise
        return Connected(opened=opened, wire=wire)

    def _retire(self, key: Key) -> None:
        live = self._live.get(key)
        if live is not None:
            self.forget(live)

    def forget(self, live: Live) -> None:
        """Give no more calls to a sandbox, and end it once those in it have; a lost one ends at once."""
        if self._live.get(live.key) is not live:
            return
        del self._live[live.key]
        task = asyncio.create_task(live.end_when_quiet())
        self._ending[task] = live
        task.add_done_callback(self._ending.pop)

    def listed(self) -> list[Live]:
        """List the sandboxes that live."""
        return [live for live in self._live.values() if not live.lost]

    async def stop(self, key: Key) -> bool:
        """End the sandbox of a key, whatever runs in it; tell whether there was one."""
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
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        live, self._live = list(self._live.values()), {}
        for retired in self._ending.values():
            retired.wire.lose("it was closed")
        ended = await asyncio.gather(*(one.end() for one in live), *self._ending, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure
