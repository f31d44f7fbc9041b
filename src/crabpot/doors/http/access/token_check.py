"""The findings of `check` about tokens: which of them reach sessions that are placed on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide.check.finding import Finding, warn
from crabpot.decide.policy import matches
from crabpot.decide.sessions import MAIN, Session
from crabpot.doors.http.access.principals import Role, covers, split
from crabpot.doors.http.access.tokens import FILE_NAME, TokenError, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.doors.http.access.tokens import Token
    from crabpot.settings import AgentSettings, Settings


def findings(settings: Settings, state: str) -> Iterator[Finding]:
    """Return the findings for every agent's token."""
    try:
        tokens = Tokens(state).listed()
    except TokenError as error:
        yield warn(FILE_NAME, str(error), "until then every token is refused")
        return
    for token in tokens:
        if token.role == Role.AGENT:
            yield from _of(token, settings)


def _of(token: Token, settings: Settings) -> Iterator[Finding]:
    for pattern in token.sessions:
        for agent in _agents(pattern, settings):
            what = _on_host(pattern, agent, settings)
            if what is None:
                continue
            reaches = f"--session {pattern!a} reaches {what}, on the host by {agent.source('sandbox.mode')}"
            if token.allow_host:
                fix = "recreate it without --allow-host, unless you trust whoever has it as yourself"
                yield warn(f"tokens {token.name}", f"{reaches}, which --allow-host permits", fix)
            else:
                fix = 'set mode: "all", name other sessions, or recreate it with --allow-host'
                yield warn(f"tokens {token.name}", f"{reaches}: such calls are denied", fix)


def _agents(pattern: str, settings: Settings) -> list[AgentSettings]:
    """List the agents that a pattern matches; one without an entry represents all without one."""
    if pattern != "*" and not pattern.startswith("agent:"):
        return [settings.agent(settings.default_agent)]
    ids = split(pattern)[0] if pattern != "*" else "*"
    known = [one for one in dict.fromkeys((*settings.entries, settings.default_agent)) if matches(ids, one)]
    return [settings.agent(one) for one in dict.fromkeys((*known, ids.replace("*", "x")))]


def _on_host(pattern: str, agent: AgentSettings, settings: Settings) -> str | None:
    """Return which of an agent's sessions on the host a pattern reaches, or None."""
    default = agent.id == settings.default_agent
    whose = f"the agent {agent.id}" if default or agent.id in settings.entries or "*" not in pattern else "other agents"
    if agent.sandbox.mode == "off":
        return f"every session of {whose}"
    keys = [f"agent:{agent.id}:{MAIN}", *([MAIN] if default else [])]
    reached = any(covers(pattern, Session(key=key, agent=agent.id, main=True)) for key in keys)
    return f"the main session of {whose}" if agent.sandbox.mode == "non-main" and reached else None
