"""The live sandboxes, found by key: opened on demand, one at a time for each key, kept, replaced and ended."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from crabpot.errors import SandboxUnavailable
from crabpot.model import Place
from crabpot.sandboxes.capacity import to_evict
from crabpot.sandboxes.freezing import Freeze
from crabpot.scheduling.fairness import Allowance, Slots
from crabpot.settings import Gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.sandboxes.live import Key, Live, Wanted

    Open = Callable[[Wanted], Awaitable[Live]]
    Claim = Callable[[Wanted], Live | None]

# Each opening holds a few dozen descriptors for its moment; a burst must not run into `ulimit -n`.
# An agent that opens a thousand waits for its own, and not the others for it.
_AT_ONCE = Allowance(scope=24, agent=24, agents=32, own=8)

_CLOSING = "the gateway is closing"


class _Opening(NamedTuple):
    """An opening under way, and for which agent: it counts like a live sandbox, and cannot be evicted."""

    task: asyncio.Task[Live]
    agent: str


class Fleet:
    """One sandbox for each key. A hundred first calls at once open one."""

    def __init__(self, *, limits: Gateway | None = None) -> None:
        self.limits = limits or Gateway()
        self._live: dict[Key, Live] = {}
        self._opening: dict[Key, _Opening] = {}
        self._ending: dict[asyncio.Task[None], Live] = {}
        self._freezes: list[Freeze[Live]] = []
        self._slots = Slots(_AT_ONCE)
        self._closed = False

    def find(self, wanted: Wanted) -> Live | None:
        """Return the sandbox that is wanted if it lives in this version: the path of nearly every call."""
        live = self._live.get(wanted.key)
        if live is None or live.wanted.version != wanted.version or live.wire.lost is not None or live.replaced:
            return None
        live.used, live.taken = time.time(), True
        return live

    def claim(self, wanted: Wanted, claim: Claim) -> Live | None:
        """Take one that is ready, at once; None if there is none, or something has to end, open or freeze first."""
        key = wanted.key
        if self._closed or self._freezes or key in self._live or key in self._opening:
            return None
        if self._to_evict(key, wanted.agent.id) is not None:
            return None
        live = claim(wanted)
        if live is None:
            return None
        self._live[key] = live
        live.taken = True
        # One that waited too long is replaced like any other.
        return None if live.lost or live.replaced else live

    async def acquire(self, wanted: Wanted, open_: Open) -> Live:
        """Find the sandbox that is wanted, or open it; one of an older version is replaced."""
        while True:
            live = self.find(wanted)
            if live is not None:
                return live
            opening = self._opening.get(wanted.key) or self._begin(wanted, open_)
            live = await self._opened(opening.task)
            if live.wanted.version == wanted.version and not (live.lost or live.replaced):
                live.taken = True
                return live

    def _begin(self, wanted: Wanted, open_: Open) -> _Opening:
        if self._closed:
            raise SandboxUnavailable(_CLOSING)
        key, agent = wanted.key, wanted.agent.id
        replaced = self._live.get(key)
        if replaced is not None:
            self.forget(replaced)
        task = asyncio.create_task(self._open(wanted, open_, self._make_room(key, agent)))
        self._opening[key] = _Opening(task, agent)
        task.add_done_callback(lambda done: self._ended(key, done))
        return self._opening[key]

    def _make_room(self, key: Key, agent: str) -> asyncio.Task[None] | None:
        """Evict a sandbox if one has to go before another opens, and return its end; SandboxUnavailable if none can."""
        evicted = self._to_evict(key, agent)
        return None if evicted is None else self.forget(evicted)

    def _to_evict(self, key: Key, agent: str) -> Live | None:
        limits = self.limits
        room = min(limits.max_sandboxes, limits.max_sandboxes_per_agent)
        # To count those of each agent takes as long as there are many.
        if key[0] is not Place.SANDBOX or len(self._live) + len(self._opening) < room:
            return None
        lives, opening = self._counted()
        return to_evict(agent, lives, opening, limits)

    def room(self, agent: str) -> tuple[int, int]:
        """Return how many more sandboxes this agent may have, and all together, before one would be evicted."""
        lives, opening = self._counted()
        counts = Counter([*(live.agent for live in lives), *opening])
        return self.limits.max_sandboxes_per_agent - counts[agent], self.limits.max_sandboxes - counts.total()

    def _counted(self) -> tuple[list[Live], list[str]]:
        """Return the live sandboxes, and the agent of each one that is being opened."""
        live, place = self._live, Place.SANDBOX
        lives = [one for key, one in live.items() if key[0] is place and not one.lost]
        # One that has just opened is among both until the loop's next turn.
        return lives, [one.agent for key, one in self._opening.items() if key[0] is place and key not in live]

    async def _opened(self, task: asyncio.Task[Live]) -> Live:
        try:
            # Not awaited itself: a caller that gives up must not take the sandbox from the others who wait for it.
            # Nor shielded: from Python 3.14 on asyncio logs what a shielded task raises once nobody waits.
            await asyncio.wait([task])
            return task.result()
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                raise SandboxUnavailable(_CLOSING) from None
            raise

    def _ended(self, key: Key, task: asyncio.Task[Live]) -> None:
        del self._opening[key]
        if not task.cancelled():
            # Whoever waits gets it; asking once keeps asyncio from logging a failure that nobody waited for.
            task.exception()

    async def _open(self, wanted: Wanted, open_: Open, evicted: asyncio.Task[None] | None) -> Live:
        if evicted is not None:
            await asyncio.wait([evicted])
        async with self._slots.taken():
            live = await open_(wanted)
        try:
            await self._join(live)
        except BaseException:
            await live.end()
            raise
        self._live[wanted.key] = live
        return live

    async def _join(self, live: Live) -> None:
        """Freeze a sandbox that opens while others like it are frozen, before it has its first call."""
        while late := [freeze for freeze in self._freezes if live not in freeze]:
            for freeze in late:
                await freeze.take(live)
        if live.lost:
            raise SandboxUnavailable("the sandbox could not be frozen while a command runs on the host; try again")

    @asynccontextmanager
    async def frozen(self, which: Callable[[Live], bool]) -> AsyncIterator[None]:
        """Let nothing move in the sandboxes that `which` names, nor in those that open meanwhile."""
        freeze = Freeze(which, self.give_up)
        self._freezes.append(freeze)
        try:
            async with freeze:
                # One that is ending may still run what it was sent.
                await freeze.take_all([*self._live.values(), *self._ending.values()])
                yield
        finally:
            self._freezes.remove(freeze)

    def forget(self, live: Live) -> asyncio.Task[None] | None:
        """Pass no more calls to a sandbox, and end it once those in it have ended; a lost one ends at once."""
        key = live.wanted.key
        if self._live.get(key) is not live:
            return None
        del self._live[key]
        task = asyncio.create_task(live.end_when_quiet())
        self._ending[task] = live
        task.add_done_callback(self._ending.pop)
        return task

    def give_up(self, live: Live, reason: str) -> None:
        """End a sandbox at once, with what runs in it."""
        live.wire.lose(reason)
        self.forget(live)

    async def opened(self) -> None:
        """Wait until whatever is being opened has opened, or failed to."""
        await asyncio.gather(*(one.task for one in self._opening.values()), return_exceptions=True)

    def listed(self) -> list[Live]:
        """Return the sandboxes that live."""
        return [live for live in self._live.values() if not live.lost]

    async def stop(self, key: Key) -> bool:
        """End the sandbox of a key, whatever runs in it; return whether there was one."""
        live = self._live.pop(key, None)
        # One that was given up a moment ago still holds its layer until it has ended.
        if ending := [task for task, one in self._ending.items() if one.wanted.key == key and one.lost]:
            await asyncio.wait(ending)
        if live is None:
            return False
        await live.end()
        return True

    async def reap(self, stale: Callable[[Live], bool]) -> list[Key]:
        """End those that are lost, and those idle ones that `stale` names."""
        keys = [key for key, live in self._live.items() if live.lost or (not live.busy and stale(live))]
        await asyncio.gather(*(self.stop(key) for key in keys))
        return keys

    async def close(self) -> None:
        """End everything; nothing is left when this returns."""
        self._closed = True
        opening = [one.task for one in self._opening.values()]
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
