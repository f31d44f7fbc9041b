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
    # How many of each scope run, or of the gateway itself; of each agent; and of all agents.
    inside: dict[Account | None, int] = field(default_factory=dict)
    of_agents: dict[str, int] = field(default_factory=dict)
    of_all: int = 0
    waiting: dict[Account | None, deque[Job]] = field(default_factory=dict)

    def join(self, whose: Account | None, job: Job) -> None:
        """Wait after what is queued for the same scope."""
        self.waiting.setdefault(whose, deque()).append(job)

    def next(self) -> Job | None:
        """Return the first job that has room; whoever was served last goes after all others."""
        for whose, jobs in self.waiting.items():
            if self.enter(whose) is None:
                job = jobs.popleft()
                del self.waiting[whose]
                if jobs:
                    self.waiting[whose] = jobs
                return job
        return None

    def enter(self, whose: Account | None) -> str | None:
        """Take a slot; where there is none, return who has taken all the room that this one may have."""
        inside, most = self.inside.get(whose, 0), self.allowed
        if whose is None:
            if inside >= most.own:
                return "the gateway"
        else:
            of_agent = self.of_agents.get(whose.agent, 0)
            if self.of_all >= most.agents:
                return "all agents together"
            if of_agent >= most.agent:
                return f"the agent {whose.agent}"
            if inside >= most.scope:
                return whose.scope_key
            self.of_agents[whose.agent] = of_agent + 1
            self.of_all += 1
        self.inside[whose] = inside + 1
        return None

    def leave(self, whose: Account | None) -> None:
        """Return the slot."""
        _count_less(self.inside, whose)
        if whose is not None:
            _count_less(self.of_agents, whose.agent)
            self.of_all -= 1


def _count_less(counts: dict[Any, int], whose: Any) -> None:
    left = counts[whose] - 1
    if left:
        counts[whose] = left
    else:
        # Agents and scopes are invented, and what is left of each would fill the memory.
        del counts[whose]


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
