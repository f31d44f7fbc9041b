"""Decide where a session's calls run, and what shares its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.frozen import dataclass
from crabpot.model import Place, Verdict

if TYPE_CHECKING:
    from crabpot.decide.sessions import Session
    from crabpot.settings import AgentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The host, or a sandbox identified by its scope key."""

    where: Place
    scope_key: str | None = None


def decide(session: Session, agent: AgentSettings) -> Verdict[Placement]:
    """Decide where one session runs. Nothing else ever places a call to a built-in tool on the host."""
    mode = agent.sandbox.mode
    source = agent.source("sandbox.mode")
    if mode == "off":
        return Verdict(answer=Placement(where=Place.HOST), because="sandbox mode is off", source=source)
    if mode == "non-main" and session.main:
        return Verdict(answer=Placement(where=Place.HOST), because="main session exempted", source=source)
    because = "every session is sandboxed" if mode == "all" else "not the main session"
    inside = Placement(where=Place.SANDBOX, scope_key=scope_key(session, agent))
    return Verdict(answer=inside, because=because, source=source)


def of_host_tool(source: str) -> Verdict[Placement]:
    """Place a host tool: wherever its session is, the program that registered the tool runs it."""
    because = "a host tool runs in the program that registered it"
    return Verdict(answer=Placement(where=Place.HOST), because=because, source=source)


def kept_off_host(placed: Verdict[Placement]) -> Verdict[bool]:
    """Refuse the host to an agent's token made without --allow-host, whatever the settings say."""
    because = f"{placed.because}, and an agent's token is placed on the host only if it was made with --allow-host"
    return Verdict(answer=False, because=because, source=placed.source)


def scope_key(session: Session, agent: AgentSettings) -> str:
    """Return the key of what shares this session's sandbox.

    A session may be called `shared`, or like an MCP server's sandbox. Used as it is, such a key would find that
    sandbox and hand one agent's files to another, so it gets a prefix that no other key can have. `agent:ops` names
    no session.
    """
    if agent.sandbox.scope == "shared":
        return "shared"
    if agent.sandbox.scope == "agent":
        return f"agent:{session.agent}"
    key = session.key
    clashes = key == "shared" or key.startswith(("session:", "server:"))
    return f"session:{key}" if clashes else key
