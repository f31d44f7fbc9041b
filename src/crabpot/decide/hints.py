"""Hints for agents: which commands may run on the host, and how to ask for one. Nothing is decided by them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from crabpot.decide import elevation
from crabpot.decide.elevation import Decision
from crabpot.decide.known_programs import leaves_review

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.settings import AgentSettings

# What is quoted or escaped is passed over; what is left of the operators ends a part.
_PIECES = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|(?P<end>&&|\|\||[;&|\n()])""", re.DOTALL)
# A text without any of these is one part, exactly as it is, whatever is quoted in it.
_OPERATOR = re.compile(r"[;&|\n()]|\A\s|\s\Z")
_LONGEST = 16 * 1024
_MOST = 64


def offered(agent: AgentSettings) -> str:
    """Return what may run on the host and how to ask for it, as a sentence; empty where nothing may."""
    reviewed = agent.sandbox.workspace == "review"
    rules = [
        rule
        for rule in elevation.rules(agent)
        if rule.enabled and (not reviewed or leaves_review(tuple(rule.pattern.split())))
    ]
    if not rules:
        return ""
    agreed = " once a person agrees" if any(rule.approval for rule in rules) else ""
    return (
        f"A command that matches one of these patterns runs on the host{agreed}, if it is the whole text of the call "
        f"(no &&, pipes, redirections or variables): {', '.join(rule.pattern for rule in rules)}."
    )


def near_miss(args: Mapping[str, Any], agent: AgentSettings, *, sender: str | None) -> str | None:
    """Return how a part of a command that stayed inside could have run on the host, or None."""
    if not elevation.is_open(agent):
        return None
    command = args.get("command")
    alone = not any(args.get(name) not in (None, False) for name in elevation.NEVER_WITH)
    if alone and isinstance(command, str) and not _OPERATOR.search(command):
        # One command and nothing else: that it stays was decided about all of it.
        return None
    # A shim takes its command to the host from anywhere in a text: that one did not stay.
    shims = {f"{name} *" for name in agent.sandbox.host_commands}
    for part in _parts(command):
        found = elevation.decide({"command": part}, agent, sender=sender).answer
        if found.decision is not Decision.SANDBOXED and found.pattern not in shims:
            return (
                f'`{part}` stayed in the sandbox. It may run on the host (pattern "{found.pattern}"), '
                "but only as a single command: call exec with exactly that text, and nothing else but cwd and timeout"
            )
    return None


def _parts(command: Any) -> Iterator[str]:
    """Return the commands in a shell text, roughly as a shell would find them."""
    if isinstance(command, list):
        if all(isinstance(word, str) for word in command):
            yield shlex.join(command)
        return
    text = str(command or "")
    if len(text) > _LONGEST:
        return
    start = 0
    ends = [match for match in _PIECES.finditer(text) if match["end"]][:_MOST]
    for end in ends:
        yield text[start : end.start()].strip()
        start = end.end()
    yield text[start:].strip()
