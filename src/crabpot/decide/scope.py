"""Who is behind a live sandbox, as the gateway knows it: nothing in here was said by the sandbox itself."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import AgentSettings

# What a program tries a thousand times is told once, and no more than this of different things.
_MOST_HINTS = 5


class Principal(NamedTuple):
    """Whose work it is, where that must be counted: one agent's, in one scope."""

    agent: str
    scope_key: str


# What is done for an agent is counted against that agent. None is the gateway's own work, and its operators'.
ACTING_FOR: ContextVar[Principal | None] = ContextVar("ACTING_FOR", default=None)


@contextmanager
def acting_for(agent: str, scope_key: str) -> Iterator[None]:
    """Do what a block does on behalf of a scope; what it starts is counted the same way."""
    before = ACTING_FOR.set(Principal(agent, scope_key))
    try:
        yield
    finally:
        ACTING_FOR.reset(before)


@dataclass(slots=True, kw_only=True, eq=False)
class Underway:
    """A call in the sandbox, and what its result should say beside what the command itself wrote."""

    session: str
    hints: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """What shares a sandbox: its key, its agent, and the calls that are under way in it."""

    key: str
    agent: AgentSettings
    calls: list[Underway] = field(default_factory=list)

    @property
    def session(self) -> str:
        """The session that calls, where there is just one; else what shares the sandbox, and so the blame."""
        sessions = {call.session for call in self.calls}
        return sessions.pop() if len(sessions) == 1 else self.key

    def hint(self, text: str) -> None:
        """Tell the calls that are under way: which of them is the cause cannot be known from outside."""
        for call in self.calls:
            if text not in call.hints and len(call.hints) < _MOST_HINTS:
                call.hints.append(text)

    def begin(self, session: str) -> Underway:
        """Count a call among those under way."""
        call = Underway(session=session)
        self.calls.append(call)
        return call

    def end(self, call: Underway) -> None:
        """It has its answer."""
        self.calls.remove(call)
