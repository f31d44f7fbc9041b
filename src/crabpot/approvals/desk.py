"""The desk where requests are decided: by a lease, by the first operator who answers, or by the deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crabpot.approvals.approver import Attached
from crabpot.approvals.leases import Leases
from crabpot.approvals.requests import DEADLINE, GONE, NOBODY, Answer, Request, denied
from crabpot.approvals.store import Store, StoreUnavailable
from crabpot.scheduling.fairness import Allowance, Slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from crabpot.approvals.approver import Approver

# How often to look for another process's answer while a request is pending.
_LOOK_S = 0.1
# An agent that asks without end must not crowd out other agents' requests, nor fill the disk: neither from one scope
# nor from many. An agent with few requests is heard even if all others have filled the desk. Nobody answers hundreds,
# and every page that is open is sent all that wait at each change.
_MOST_OF_A_SCOPE, _MOST_OF_AN_AGENT, _MOST, _RESERVED = 32, 64, 1024, 8
# Each is a commit, and commits wait for each other: one agent's wait in its own line, and of each only one in between.
_STORING = Allowance(scope=1, agent=1, agents=4, own=4)
_ENDING = denied(GONE, "the gateway ends")


@dataclass(slots=True, eq=False)
class _Waiting:
    """A pending request, and who is being asked."""

    request: Request
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    asking: set[asyncio.Task[None]] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)


class Desk:
    """The desk of one gateway, over the store that all processes of its state folder share.

    `pending`, `answer`, `store` and `leases` may be used from any thread; the rest only on the gateway's own loop.
    """

    def __init__(self, state: str) -> None:
        self._state = state
        self._opened: tuple[Store, Leases] | None = None
        self._opening = threading.Lock()
        self._attached: list[Attached] = []
        self._asked: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, _Waiting] = {}
        self._changed = asyncio.Condition()
        self._watchers = 0
        self._storing = Slots(_STORING)
        self._looker: asyncio.Task[None] | None = None
        self._closing = False
        # What this gateway, and so what it was granted for a while, ends with.
        self.ends_with = "its gateway"

    @property
    def store(self) -> Store:
        """The store, opened on first use: most gateways never ask."""
        return self._open()[0]

    @property
    def leases(self) -> Leases:
        """The leases in the same store."""
        return self._open()[1]

    def _open(self) -> tuple[Store, Leases]:
        with self._opening:
            if self._opened is None:
                store = Store(self._state)
                self._opened = store, Leases(store)
            return self._opened

    def attach(self, approver: Approver, *, scope_key: str | None = None) -> Callable[[], None]:
        """Add an approver for every request, or only for one scope's; return the function that removes it."""
        one = Attached(approver, scope_key)
        self._attached.append(one)
        for waiting in list(self._waiting.values()):
            self._ask(waiting, one)

        def detach() -> None:
            with suppress(ValueError):
                self._attached.remove(one)

        return detach

    def pending(self) -> list[Request]:
        """List the requests that may be answered now, from every gateway of the state folder."""
        return self.store.pending()

    async def listed(self) -> list[Request]:
        """List the same for a page, without a thread while nobody has written: pages ask often."""
        known = None if self._opened is None else self._opened[0].known()
        return await asyncio.to_thread(self.pending) if known is None else known

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a request; return False if it is no longer pending."""
        return self.store.answer(request_id, answer) and self._heard(request_id)

    def _heard(self, request_id: str) -> bool:
        waiting = self._waiting.get(request_id)
        if waiting is not None:
            waiting.loop.call_soon_threadsafe(waiting.settled.set)
        return True

    async def watch(self) -> AsyncIterator[list[Request]]:
        """Yield the pending requests, now and whenever they change, in this process or another."""
        self._watchers += 1
        try:
            before = None
            while True:
                now = await asyncio.to_thread(self.store.pending)
                if now != before:
                    before = now
                    yield now
                self._look()
                async with self._changed:
                    await self._changed.wait()
        finally:
            self._watchers -= 1

    async def decide(self, request: Request) -> Answer:
        """Return the answer to one request, valid for this request alone."""
        lease = await asyncio.to_thread(self.leases.take, request)
        if lease is not None:
            return Answer(allowed=True, by=f"lease {lease.id}", reason=lease.answer.reason)
        if not any(one.hears(request) for one in self._attached):
            return denied(NOBODY, "no operator is connected")
        crowded = self._crowded(request.agent, request.scope_key)
        if crowded is not None:
            return denied(NOBODY, crowded)
        request = replace(request, ends_with=self.ends_with)
        asker = request.agent, request.scope_key
        self._asked[asker] += 1
        try:
            return await self._stored(request)
        finally:
            self._asked -= Counter({asker: 1})
            await self._tell()

    async def refused(self, agent: str, scope_key: str) -> Answer | None:
        """Return the denial of whatever this scope would ask now, or None: what will be denied need not be prepared."""
        crowded = self._crowded(agent, scope_key)
        if crowded is None or await asyncio.to_thread(self.leases.any_of, scope_key):
            return None
        return denied(NOBODY, crowded)

    def _crowded(self, agent: str, scope_key: str) -> str | None:
        """Return why nothing more of this scope can be asked now, or None."""
        whose = None
        of_agent = sum(count for (asker, _), count in self._asked.items() if asker == agent)
        if self._asked[agent, scope_key] >= _MOST_OF_A_SCOPE:
            whose = f"requests of {scope_key}"
        elif of_agent >= _MOST_OF_AN_AGENT:
            whose = f"requests of the agent {agent}"
        elif of_agent >= _RESERVED and self._asked.total() >= _MOST:
            whose = "requests"
        return None if whose is None else f"too many {whose} are already waiting for an answer"

    async def _stored(self, request: Request) -> Answer:
        begun = False
        try:
            async with self._storing.taken():
                if self._closing:
                    return _ENDING
                begun = True
                await _whole(asyncio.to_thread(self.store.add, request))
            waiting = self._waiting[request.id] = _Waiting(request)
            try:
                await self._wait(waiting)
            finally:
                del self._waiting[request.id]
                for task in waiting.asking:
                    task.cancel()
                await asyncio.gather(*waiting.asking, return_exceptions=True)
        except asyncio.CancelledError:
            # The caller is gone: nobody may agree any more to what nobody waits for.
            if begun:
                await _whole(asyncio.to_thread(self.store.withdraw, request.id))
            raise
        # An answer that came in time wins, even one not noticed yet.
        await asyncio.to_thread(self.store.settle, request.id, denied(DEADLINE, "nobody answered by the deadline"))
        answer = await asyncio.to_thread(self.store.use, request)
        return answer or denied(NOBODY, "the answer was used already")

    async def _wait(self, waiting: _Waiting) -> None:
        if self._closing:
            # The request was being stored while the others were denied.
            self.answer(waiting.request.id, _ENDING)
        # Somebody may have answered as soon as it was stored, before anybody waited.
        for answered in await asyncio.to_thread(self.store.answered, [waiting.request.id]):
            self._heard(answered)
        for one in self._attached:
            self._ask(waiting, one)
        self._look()
        await self._tell()
        with suppress(TimeoutError):
            async with asyncio.timeout(waiting.request.deadline - time.time()):
                await waiting.settled.wait()

    def _ask(self, waiting: _Waiting, one: Attached) -> None:
        if one.hears(waiting.request):
            waiting.asking.add(asyncio.create_task(self._ask_one(waiting, one.approver)))

    async def _ask_one(self, waiting: _Waiting, approver: Approver) -> None:
        why = "whoever was asked could not answer"
        try:
            answer = await approver.ask(waiting.request)
        except Exception as error:  # noqa: BLE001  an approver that breaks is one that cannot answer
            answer, why = None, f"whoever was asked failed: {type(error).__name__}: {error}"
        others = waiting.asking - {asyncio.current_task()}
        if answer is None and any(not task.done() for task in others):
            return
        try:
            await asyncio.to_thread(self.store.answer, waiting.request.id, answer or denied(NOBODY, why))
        finally:
            waiting.settled.set()

    # --- noticing what other processes answered ---------------------------------------------------------------------

    def _look(self) -> None:
        if self._looker is None or self._looker.done():
            # In a context of its own: it polls for everybody, and must not be charged to whoever asked first.
            self._looker = asyncio.create_task(self._look_on(), context=Context())

    async def _look_on(self) -> None:
        while self._waiting or self._watchers:
            await asyncio.sleep(_LOOK_S)
            # Whoever waits reports a store that cannot be read, at the deadline at the latest.
            with suppress(StoreUnavailable):
                if await asyncio.to_thread(self.store.changed):
                    for request_id in await asyncio.to_thread(self.store.answered, list(self._waiting)):
                        self._heard(request_id)
                    await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """Deny all pending requests, and stop asking."""
        self._closing = True
        waiting = list(self._waiting)
        if waiting:
            await asyncio.to_thread(self.store.settle_all, waiting, _ENDING)
        for request_id in waiting:
            self._heard(request_id)
        async with self._changed:
            await self._changed.wait_for(lambda: not self._asked)
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.gather(self._looker, return_exceptions=True)
        if self._opened is not None:
            self._opened[0].close()


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Wait for a thread to finish, cancelled or not: it cannot be stopped, and its effect must be known."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
