"""Who is behind a live sandbox, as the gateway knows it: nothing here was stated by the sandbox itself."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

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

# Who is behind the work: the name of an agent's token where one was shown, else the agent; None is the gateway itself.
# A token for many agents is one principal, whatever ids its holder invents.
PRINCIPAL: ContextVar[str | None] = ContextVar("PRINCIPAL", default=None)
# Neither a token nor an agent can have this name.
OPERATOR = "<operator>"


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


class acting_for:  # noqa: N801  a block, as those made of generators, which cost ten times as much
    """Charge the block, and whatever it starts, to a scope, and to its agent if no token stands for it."""

    __slots__ = ("_account", "_before", "_whose")

    def __init__(self, agent: str, scope_key: str) -> None:
        self._account = Account(agent, scope_key)

    def __enter__(self) -> Account:
        """Begin the block."""
        account = self._account
        self._before = ACTING_FOR.set(account)
        behind = PRINCIPAL.get()
        self._whose = PRINCIPAL.set(principal_of(account.agent) if behind is None or behind == OPERATOR else behind)
        return account

    def __exit__(self, *_: object) -> None:
        """End it."""
        PRINCIPAL.reset(self._whose)
        ACTING_FOR.reset(self._before)


def principal_of(agent: str) -> str:
    """Return who is behind an agent's work if no token stands for it."""
    return f"agent {agent}"


class behind_it:  # noqa: N801  as above
    """Charge the block, and whatever it starts, to a principal."""

    __slots__ = ("_before", "_principal")

    def __init__(self, principal: str | None) -> None:
        self._principal = principal

    def __enter__(self) -> None:
        """Begin the block."""
        self._before = PRINCIPAL.set(self._principal)

    def __exit__(self, *_: object) -> None:
        """End it."""
        PRINCIPAL.reset(self._before)


@dataclass(slots=True, kw_only=True, eq=False)
class Underway:
    """A call in the sandbox, and the hints that its result should add to the command's own output."""

    session: str
    # When it is ended at the latest, however long a person takes; None for what may leave something running.
    ends_at: float | None = None
    hints: list[str] = field(default_factory=list)


class Clocks(Protocol):
    """What counts the time of calls."""

    def hold(self) -> None:
        """Let no time pass."""

    def resume(self) -> None:
        """Let time pass again."""


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """What shares a sandbox: its key, its agent, and the calls in progress."""

    key: str
    agent: AgentSettings
    calls: list[Underway] = field(default_factory=list)
    # The variables of whoever called last: what runs on in the background is answered with those.
    variables: Mapping[str, str] | None = None
    # The clocks of the calls in progress.
    clocks: Clocks | None = None
    _asking: int = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let no time pass for the calls in progress while a person is asked: which of them waits is not known."""
        self._asking += 1
        if self.clocks is not None and self._asking == 1:
            self.clocks.hold()
        try:
            yield
        finally:
            self._asking -= 1
            if self.clocks is not None and not self._asking:
                self.clocks.resume()

    def deadline(self, now: float, patience_s: float) -> float:
        """Return until when a person may answer: no longer than the last of the calls in progress can wait."""
        ends = [call.ends_at for call in self.calls if call.ends_at is not None]
        known = ends and len(ends) == len(self.calls)
        return max(now, min(now + patience_s, max(ends))) if known else now + patience_s

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

    def begin(self, session: str, ends_at: float | None = None) -> Underway:
        """Add a call to those in progress."""
        call = Underway(session=session, ends_at=ends_at)
        self.variables = CALLER.get()
        self.calls.append(call)
        return call

    def end(self, call: Underway) -> None:
        """Remove a call that has its result."""
        self.calls.remove(call)
