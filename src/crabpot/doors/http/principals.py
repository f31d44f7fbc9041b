"""Who a request comes from: an operator, an agent bound to its sessions, or an observer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from crabpot.policy.rules import matches


class Role(StrEnum):
    """What a principal may do."""

    OPERATOR = "operator"  # everything, approving included
    AGENT = "agent"  # calls the tools of its own sessions, and nothing else
    OBSERVER = "observer"  # reads the metrics, and nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One of them. An agent's sender is part of its token: the agent cannot state another."""

    name: str
    role: Role
    sessions: tuple[str, ...] = ()
    sender: str | None = None
    # The operator lets this client be asked for approvals, by elicitation; it might answer by itself.
    elicits: bool = False

    @property
    def operates(self) -> bool:
        """Whether it is an operator."""
        return self.role is Role.OPERATOR

    def may_use(self, session: str) -> bool:
        """Tell whether a session is this principal's to call tools in; in a pattern only `*` is special."""
        if self.role is Role.AGENT:
            return any(matches(pattern, session) for pattern in self.sessions)
        return self.operates

    def only_session(self) -> str | None:
        """Give the session of an agent that has exactly one."""
        named = self.sessions[0] if len(self.sessions) == 1 else "*"
        return None if "*" in named else named


# Whoever connects to the Unix socket as the gateway's own user.
SAME_USER = Principal(name="same-user", role=Role.OPERATOR, elicits=False)
