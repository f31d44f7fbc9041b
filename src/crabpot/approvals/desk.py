"""The desk where requests are decided: by a lease, by the first operator who answers, or by the deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from crabpot.approvals.leases import Leases
from crabpot.approvals.requests import DEADLINE, GONE, NOBODY, Answer, Request, denied
from crabpot.approvals.store import Store, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

# How often another process's answer is looked for, while somebody waits for one.
_LOOK_S = 0.1
# An agent that asks without end must not keep the others' requests from the operator, nor fill the disk: neither from
# one scope nor from many. Whoever has few requests is heard also where all others have filled the desk.
_MOST_OF_A_SCOPE, _MOST_OF_AN_AGENT, _MOST, _RESERVED = 256, 512, 1024, 8
_ENDING = denied(GONE, "the gateway ends")


class Approver(Protocol):
    """A place where an operator may answer: a terminal, a page, a program's callback."""

    async def ask(self, request: Request) -> Answer | None:
        """Answer, or None where that is not possible here. Cancelled once somebody else has answered."""
        ...


@dataclass(slots=True, eq=False)
class _Attached:
    approver: Approver
    scope_key: str | None

    def hears(self, request: Request) -> bool:
        return self.scope_key in (None, request.scope_key)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that is being decided, and who is being asked."""

    request: Request
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    asking: set[asyncio.Task[None]] = field(default_factory=set)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)


class Desk:
    """One gateway's desk, over the store that all processes of its state folder share.

    `pending`, `answer`, `store` and `leases` are for any thread; the rest is for the gateway's own loop.
    """

    def __init__(self, state: str) -> None:
        self._state = state
        self._opened: tuple[Store, Leases] | None = None
        self._opening = threading.Lock()
        self._attached: list[_Attached] = []
        self._asked: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, _Waiting] = {}
        self._changed = asyncio.Condition()
        self._watchers = 0
        self._looker: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def store(self) -> Store:
        """The store, opened when it is first needed: most gateways never ask."""
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
        """Ask here as well, whatever comes or only what one scope asks; gives what ends it."""
        one = _Attached(approver, scope_key)
        self._attached.append(one)
        for waiting in list(self._waiting.values()):
            self._ask(waiting, one)

        def detach() -> None:
            with suppress(ValueError):
                self._attached.remove(one)

        return detach

    def pending(self) -> list[Request]:
        """List what may be answered now, of every gateway of the state folder."""
        return self.store.pending()

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Answer a request; False if it is no longer pending."""
        return self.store.answer(request_id, answer) and self._heard(request_id)

    def _heard(self, request_id: str) -> bool:
        waiting = self._waiting.get(request_id)
        if waiting is not None:
            waiting.loop.call_soon_threadsafe(waiting.settled.set)
        return True

    async def watch(self) -> AsyncIterator[list[Request]]:
        """Give what is pending, now and whenever it has changed, in this process or in another."""
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
        """Give the answer to one request; whatever it is, it is for this one alone."""
        lease = await asyncio.to_thread(self.leases.take, request)
        if lease is not None:
            return Answer(allowed=True, by=f"lease {lease.id}", reason=lease.answer.reason)
        if not any(one.hears(request) for one in self._attached):
            return denied(NOBODY, "nobody is there to ask")
        crowded = self._crowded(request)
        if crowded is not None:
            return denied(NOBODY, f"too many {crowded} wait for an answer already")
        asker = request.agent, request.scope_key
        self._asked[asker] += 1
        try:
            return await self._stored(request)
        finally:
            self._asked -= Counter({asker: 1})
            await self._tell()

    def _crowded(self, request: Request) -> str | None:
        """Say whose requests fill the room that this one would need, or None."""
        if self._asked[request.agent, request.scope_key] >= _MOST_OF_A_SCOPE:
            return f"requests of {request.scope_key}"
        of_agent = sum(count for (agent, _), count in self._asked.items() if agent == request.agent)
        if of_agent >= _MOST_OF_AN_AGENT:
            return f"requests of the agent {request.agent}"
        return "requests" if of_agent >= _RESERVED and self._asked.total() >= _MOST else None

    async def _stored(self, request: Request) -> Answer:
        try:
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
            # Whoever called has gone: nobody may agree any more to what nobody waits for.
            self.store.settle(request.id, denied(NOBODY, "the caller ended the call"))
            raise
        # Loses against an answer that came in time, even one that has not been noticed yet.
        await asyncio.to_thread(self.store.settle, request.id, denied(DEADLINE, "nobody answered by the deadline"))
        answer = await asyncio.to_thread(self.store.use, request)
        return answer or denied(NOBODY, "the answer was used already")

    async def _wait(self, waiting: _Waiting) -> None:
        if self._closing:
            # It was being stored while the others were denied.
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

    def _ask(self, waiting: _Waiting, one: _Attached) -> None:
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
            # In a context of its own: it looks for all, and must not be counted against whoever asked first.
            self._looker = asyncio.create_task(self._look_on(), context=Context())

    async def _look_on(self) -> None:
        while self._waiting or self._watchers:
            await asyncio.sleep(_LOOK_S)
            # A store that cannot be read is told of by whoever waits, at the latest at the deadline.
            with suppress(StoreUnavailable):
                if await asyncio.to_thread(self.store.changed):
                    for request_id in await asyncio.to_thread(self.store.answered, list(self._waiting)):
                        self._heard(request_id)
                    await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """Deny what is pending, and stop asking."""
        self._closing = True
        for request_id in list(self._waiting):
            self.answer(request_id, _ENDING)
        async with self._changed:
            await self._changed.wait_for(lambda: not self._asked)
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.gather(self._looker, return_exceptions=True)
        if self._opened is not None:
            self._opened[0].close()


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Wait for a thread to its end, cancelled or not: it cannot be stopped, and what it did must be known."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
