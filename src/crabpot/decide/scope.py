"""Who is behind a live sandbox, as the gateway knows it: nothing here was stated by the sandbox itself."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.settings import AgentSettings

# What a program tries a thousand times is reported once, and at most this many different things.
_MOST_HINTS = 5


class Account(NamedTuple):
    """Who is charged for work: one agent, in one scope."""

    agent: str
    scope_key: str


# Work for an agent is charged to that agent. None is the gateway's own work, and its operators'.
ACTING_FOR: ContextVar[Account | None] = ContextVar("ACTING_FOR", default=None)


# The variables that a caller of a lingering gateway brings. None: those of the gateway itself count.
CALLER: ContextVar[Mapping[str, str] | None] = ContextVar("CALLER", default=None)


@contextmanager
def called_with(variables: Mapping[str, str] | None) -> Iterator[None]:
    """Let the block, and whatever it starts, see these variables of its caller."""
    before = CALLER.set(variables)
    try:
        yield
    finally:
        CALLER.reset(before)


@contextmanager
def acting_for(agent: str, scope_key: str) -> Iterator[None]:
    """Charge the block, and whatever it starts, to a scope."""
    before = ACTING_FOR.set(Account(agent, scope_key))
    try:
        yield
    finally:
        ACTING_FOR.reset(before)


@dataclass(slots=True, kw_only=True, eq=False)
class Underway:
    """A call in the sandbox, and the hints that its result should add to the command's own output."""

    session: str
    hints: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """What shares a sandbox: its key, its agent, and the calls in progress."""

    key: str
    agent: AgentSettings
    calls: list[Underway] = field(default_factory=list)
    # The variables of whoever called last: what runs on in the background is answered with those.
    variables: Mapping[str, str] | None = None

    @property
    def session(self) -> str:
        """The calling session if there is just one; else the scope key, since any session of it may be the cause."""
        sessions = {call.session for call in self.calls}
        return sessions.pop() if len(sessions) == 1 else self.key

    def hint(self, text: str) -> None:
        """Add a hint to every call in progress: which of them is the cause cannot be known from outside."""
        for call in self.calls:
            if text not in call.hints and len(call.hints) < _MOST_HINTS:
                call.hints.append(text)

    def begin(self, session: str) -> Underway:
        """Add a call to those in progress."""
        call = Underway(session=session)
        self.variables = CALLER.get()
        self.calls.append(call)
        return call

    def end(self, call: Underway) -> None:
        """Remove a call that has its result."""
        self.calls.remove(call)
