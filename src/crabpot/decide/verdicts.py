"""Decide on a call by the settings alone: whose it is, where it runs, and whether its tool is allowed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from crabpot.decide import placement, policy, servers, sessions
from crabpot.decide.tools import BUILT_IN, OPERATIONS
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.decide.placement import Placement
    from crabpot.model import Verdict
    from crabpot.settings import AgentSettings, Settings

# Ids and tools are invented, and may be long.
_MOST_AGENTS, _MOST_TOOLS = 64, 1024

# What sandboxes and the host run themselves; everything else is a host tool or a tool of a server.
OURS = BUILT_IN | OPERATIONS.keys()


class Verdicts(NamedTuple):
    """The agent of a call, where it runs, and whether its tool is allowed."""

    agent: AgentSettings
    placed: Verdict[Placement]
    allowed: Verdict[bool]


class Rules:
    """What the settings say of each agent and its tools, which is the same for all of its sessions: found out once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The same object in all decisions on an agent: whoever has seen it need not compare it.
        self.agent = lru_cache(maxsize=_MOST_AGENTS)(settings.agent)
        self.allowed = lru_cache(maxsize=_MOST_TOOLS)(self._decide)

    def _decide(self, tool: str, agent: str, sandboxed: bool) -> Verdict[bool]:  # noqa: FBT001  a cache key is positional
        return policy.decide(tool, self.agent(agent), sandboxed=sandboxed)


def decide(rules: Rules, session: str, tool: str, *, host_allowed: bool) -> Verdicts:
    """Decide on a tool of a session, or on the session alone if the tool is empty; SessionError if there is none."""
    settings = rules.settings
    key = sessions.parse(session, default_agent=settings.default_agent)
    agent = rules.agent(key.agent)
    placed = placement.decide(key, agent)
    allowed = rules.allowed(tool, key.agent, placed.answer.where is Place.SANDBOX)
    server = servers.owner(tool, settings)
    if server is not None:
        placed = servers.place(server, key, agent, settings)
    elif tool and tool not in OURS:
        placed = placement.of_host_tool(allowed.source)
    elif allowed.answer and not host_allowed and placed.answer.where is Place.HOST:
        allowed = placement.kept_off_host(placed)
    return Verdicts(agent, placed, allowed)
