"""The principal of a request: an operator, an agent bound to its sessions, or an observer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from crabpot.decide.policy import matches
from crabpot.decide.sessions import is_agent_id, parse

if TYPE_CHECKING:
    from crabpot.decide.sessions import Session

_AGENTS, _ANYTHING = "agent:", "*"


class Role(StrEnum):
    """What a principal may do."""

    OPERATOR = "operator"  # everything, approving included
    AGENT = "agent"  # calls the tools of its own sessions, and nothing else
    OBSERVER = "observer"  # reads the metrics, and nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who a request comes from. An agent's sender is part of its token: the agent cannot state another."""

    name: str
    role: Role
    sessions: tuple[str, ...] = ()
    sender: str | None = None
    # Whether the operator lets an agent's calls run on the host if its session is placed there.
    allow_host: bool = False
    # Whether the operator lets this client be asked for approvals, by elicitation; it might answer by itself.
    elicits: bool = False

    @property
    def operates(self) -> bool:
        """Whether it is an operator."""
        return self.role is Role.OPERATOR

    def may_use(self, session: str) -> bool:
        """Return whether this principal may call tools in a session; SessionError if the key names none."""
        parsed = parse(session)
        if self.role is Role.AGENT:
            return any(covers(pattern, parsed) for pattern in self.sessions)
        return self.operates

    @property
    def host_allowed(self) -> bool:
        """Whether its calls may be placed on the host."""
        return self.operates or self.allow_host

    def only_session(self) -> str | None:
        """Return the session of an agent that has exactly one."""
        named = self.sessions[0] if len(self.sessions) == 1 else "*"
        return None if "*" in named else named

    def new_session(self, name: str, *, default_agent: str) -> str | None:
        """Return a session of this name that it may use, or None if its sessions are all given."""
        for pattern in ("*",) if self.operates else self.sessions:
            agents, rests = split(pattern) if pattern.startswith(_AGENTS) else ("*", pattern)
            if "*" not in rests:
                continue
            agent = default_agent if matches(agents, default_agent) else agents.replace("*", "x")
            begin, _, end = rests.partition("*")
            key = f"agent:{agent}:{begin}{name}{end.replace('*', '')}"
            if self.may_use(key):
                return key
        return None


def covers(pattern: str, session: Session) -> bool:
    """Return whether a pattern matches a session. Only `*` is special; alone, it matches every session.

    One that begins with `agent:` is matched with the agent of the parsed key, then with the rest: as text,
    `agent:*-bot:x` would match `agent:main:my-bot:x` too. Any other pattern is for keys that name no agent.
    """
    if pattern == _ANYTHING:
        return True
    if not pattern.startswith(_AGENTS) or not session.key.startswith(_AGENTS):
        return not pattern.startswith(_AGENTS) and not session.key.startswith(_AGENTS) and matches(pattern, session.key)
    agents, rests = split(pattern)
    rest = session.key.removeprefix(_AGENTS).partition(":")[2]
    return matches(agents, session.agent) and matches(rests, rest)


def split(pattern: str) -> tuple[str, str]:
    """Return the patterns for agents and for their sessions in a pattern that begins with `agent:`."""
    agents, colon, rests = pattern.removeprefix(_AGENTS).partition(":")
    return agents.lower(), rests if colon else _ANYTHING


def problem_with(pattern: str) -> str | None:
    """Return why a pattern would match no session at all, or None."""
    if not pattern.startswith(_AGENTS):
        return None if pattern else "it is empty"
    agents, colon, rests = pattern.removeprefix(_AGENTS).partition(":")
    if ("*" not in agents and (not is_agent_id(agents) or not colon)) or (colon and not rests):
        return 'it names no session of an agent; write "agent:ID:NAME", as in "agent:ops:*"'
    return None


# Whoever connects to the Unix socket as the gateway's own user.
SAME_USER = Principal(name="same-user", role=Role.OPERATOR, elicits=False)
