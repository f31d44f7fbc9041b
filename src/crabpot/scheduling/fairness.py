"""Room that no agent can take from the others: so much for a scope, an agent, all agents, and the gateway itself."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crabpot.decide.scope import ACTING_FOR

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.decide.scope import Account

Job = TypeVar("Job")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many at once: for one scope, for one agent, for all agents together, and for the gateway itself."""

    scope: int
    agent: int
    agents: int
    own: int


@dataclass(slots=True)
class Line(Generic[Job]):
    """Jobs that run and jobs that wait, each by principal. Those who wait are served in turn."""

    allowed: Allowance
    inside: dict[Any, int] = field(default_factory=dict)
    waiting: dict[Account | None, deque[Job]] = field(default_factory=dict)

    def join(self, whose: Account | None, job: Job) -> None:
        """Wait after what is queued for the same scope."""
        self.waiting.setdefault(whose, deque()).append(job)

    def next(self) -> Job | None:
        """Return the first job that has room; whoever was served last goes after all others."""
        for whose, jobs in self.waiting.items():
            if self.full(whose) is None:
                job = jobs.popleft()
                del self.waiting[whose]
                if jobs:
                    self.waiting[whose] = jobs
                self.enter(whose)
                return job
        return None

    def enter(self, whose: Account | None) -> None:
        """Take a slot."""
        inside = self.inside
        for key in _counted(whose):
            inside[key] = inside.get(key, 0) + 1

    def leave(self, whose: Account | None) -> None:
        """Return the slot."""
        inside = self.inside
        for key in _counted(whose):
            if inside[key] > 1:
                inside[key] -= 1
            else:
                del inside[key]

    def full(self, whose: Account | None) -> str | None:
        """Return who has taken all the room that this one may have, or None."""
        inside, most = self.inside.get, self.allowed
        if whose is None:
            return "the gateway" if inside(None, 0) >= most.own else None
        if inside(whose, 0) < most.scope and inside(whose.agent, 0) < most.agent and inside("agents", 0) < most.agents:
            return None
        allowed = (most.agents, most.agent, most.scope)
        takers = ("all agents together", f"the agent {whose.agent}", whose.scope_key)
        full = [inside(key, 0) >= room for key, room in zip(_counted(whose), allowed, strict=True)]
        return next((taker for taker, is_full in zip(takers, full, strict=True) if is_full), None)


def _counted(whose: Account | None) -> tuple[Any, ...]:
    """Return what it counts against: all agents, this agent and this scope; or the gateway itself."""
    return (None,) if whose is None else ("agents", whose.agent, whose)


class Slots:
    """Turns at a limited resource, for tasks of one loop."""

    def __init__(self, allowed: Allowance) -> None:
        self._line: Line[tuple[Account | None, asyncio.Future[None]]] = Line(allowed)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold a slot for as long as a block lasts, on behalf of whoever the caller acts for."""
        whose = ACTING_FOR.get()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.join(whose, (whose, turn))
        self._serve()
        try:
            await turn
            yield
        finally:
            # One that was cancelled before its turn has nothing to give back.
            if not turn.cancelled():
                self._line.leave(whose)
                self._serve()

    def _serve(self) -> None:
        while (found := self._line.next()) is not None:
            whose, turn = found
            if turn.done():
                self._line.leave(whose)
            else:
                turn.set_result(None)
