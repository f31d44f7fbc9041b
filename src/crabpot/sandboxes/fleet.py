"""The live sandboxes, found by key: opened on demand, one at a time for each key, kept, replaced and ended."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.errors import SandboxUnavailable
from crabpot.model import Place
from crabpot.sandboxes.capacity import leaver
from crabpot.sandboxes.freezing import Standstill
from crabpot.scheduling.fairness import Allowance, Slots
from crabpot.settings import Gateway
from crabpot.wire.calls import RunnerWire
from crabpot.wire.stream import GRACE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.backends.base import Opened
    from crabpot.decide.scope import Scope
    from crabpot.settings import Prune

    # What was opened ahead of its first call is connected already.
    Opener = Callable[[], Awaitable["Opened | Connected"]]
    # A place and what shares it: no session can be named so that it finds the host's runner.
    Key = tuple[Place, str]

# A sandbox that is not ready by then never will be.
START_S = 20.0

# Each opening holds a few dozen descriptors for its moment; a burst must not run into `ulimit -n`.
# An agent that opens a thousand waits for its own, and not the others for it.
_AT_ONCE = Allowance(scope=24, agent=24, agents=32, own=8)

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
        await self.wire.upcalls.ended()
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
    # Whose it is; of a place on the host nobody counts.
    agent: str = ""
    # Whoever it was opened for has it: until then it looks idle, and is not.
    taken: bool = False
    # A process in the background may still run, and no call is in flight for it.
    left_running: bool = False
    started: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)

    def can_reach(self, folder: str) -> bool:
        """Tell whether it can change something in a folder of the host, or above it: a program looks there too."""
        wanted = os.path.realpath(folder)
        roots = [os.path.realpath(root) for root in self.writes]
        return any(os.path.commonpath([root, wanted]) in (root, wanted) for root in roots)

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it, is about to, or was left running, and nobody needs it to stand still."""
        awaited = not self.taken and time.time() - self.started < START_S
        return not (self.wire.busy or awaited or self.left_running or self._freezes)

    async def end_when_quiet(self) -> None:
        """Let the calls in it finish before it ends."""
        await self.wire.quiet()
        await self.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is being opened: it counts as one that lives, and cannot go."""

    version: str
    open_: Opener
    prune: Prune
    writes: tuple[str, ...]
    agent: str
    idle: bool = False
    used: float = 0.0


class Fleet:
    """One sandbox for each key. A hundred first calls at once open one."""

    def __init__(self, *, start_s: float = START_S, grace_s: float = GRACE_S, limits: Gateway | None = None) -> None:
        self._limits = limits or Gateway()
        self._start_s = start_s
        self._grace_s = grace_s
        self._live: dict[Key, Live] = {}
        self._opening: dict[Key, asyncio.Task[Live]] = {}
        self._wanted: dict[Key, _Wanted] = {}
        self._ending: dict[asyncio.Task[None], Live] = {}
        self._stills: list[Standstill[Live]] = []
        self._slots = Slots(_AT_ONCE)
        self._closed = False

    def find(self, key: Key, version: str) -> Live | None:
        """Give the sandbox of a key if it lives and is of this version: the path of nearly every call."""
        live = self._live.get(key)
        if live is None or live.version != version or live.wire.lost is not None:
            return None
        live.used, live.taken = time.time(), True
        return live

    async def acquire(  # noqa: PLR0913  all that a sandbox is found or opened by
        self, key: Key, version: str, open_: Opener, prune: Prune, *, writes: tuple[str, ...] = (), agent: str = ""
    ) -> Live:
        """Find the sandbox of a key, or open it; one of an older version is replaced.

        `prune` says when it goes, `writes` what of the host it can change, `agent` whose it is.
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
                wanted = _Wanted(version=version, open_=open_, prune=prune, writes=writes, agent=agent)
                task = asyncio.create_task(self._open(key, wanted, self._make_room(key, agent)))
                self._opening[key], self._wanted[key] = task, wanted
                task.add_done_callback(lambda done: self._opened(key, done))
            live = await self._opened_by(task)
            if live.version == version and not live.lost:
                live.taken = True
                return live

    def _make_room(self, key: Key, agent: str) -> asyncio.Task[None] | None:
        """Let the one go that has to before another opens, and give its end; SandboxUnavailable if none can go."""
        if key[0] is not Place.SANDBOX:
            return None
        lives = [live for live in self._live.values() if live.key[0] is Place.SANDBOX and not live.lost]
        opening = [wanted for other, wanted in self._wanted.items() if other[0] is Place.SANDBOX]
        going = leaver(agent, [*lives, *opening], self._limits)
        return self.forget(going) if isinstance(going, Live) else None

    async def _opened_by(self, task: asyncio.Task[Live]) -> Live:
        try:
            # Shielded: a caller that gives up must not take the sandbox from the others who wait for it.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                raise SandboxUnavailable(_CLOSING) from None
            raise

    def _opened(self, key: Key, task: asyncio.Task[Live]) -> None:
        del self._opening[key], self._wanted[key]
        if not task.cancelled():
            # Whoever waits is told; asking once keeps asyncio from logging a failure that nobody waited for.
            task.exception()

    async def _open(self, key: Key, wanted: _Wanted, going: asyncio.Task[None] | None) -> Live:
        if going is not None:
            await asyncio.wait([going])
        async with self._slots.taken():
            found = await wanted.open_()
        connected = found if isinstance(found, Connected) else await self.connect(found)
        opened, wire = connected.opened, connected.wire
        live = Live(
            key=key,
            version=wanted.version,
            opened=opened,
            wire=wire,
            prune=wanted.prune,
            writes=wanted.writes,
            agent=wanted.agent,
        )
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

    def forget(self, live: Live) -> asyncio.Task[None] | None:
        """Give no more calls to a sandbox, and end it once those in it have; a lost one ends at once."""
        if self._live.get(live.key) is not live:
            return None
        del self._live[live.key]
        task = asyncio.create_task(live.end_when_quiet())
        self._ending[task] = live
        task.add_done_callback(self._ending.pop)
        return task

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
