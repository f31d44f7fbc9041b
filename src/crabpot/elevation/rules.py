"""Decide whether one `exec` command stays in the sandbox, needs a person's word, or goes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from crabpot.elevation import commands, patterns
from crabpot.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.settings import AgentSettings

# A command that brings its own environment, input or terminal is more than the words a person is shown.
_NEVER_WITH = ("env", "stdin", "tty")


class Exit(IntEnum):
    """What a command gets, the strictest highest."""

    GOES_OUT = 0
    NEEDS_APPROVAL = 1
    STAYS_IN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Elevation:
    """The decision on one command: the words it was read as, and the pattern that took them."""

    exit: Exit
    argv: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One pattern by which a command may leave, and where it is written."""

    pattern: str
    source: str
    approval: bool
    enabled: bool


def ways(agent: AgentSettings) -> Iterator[Way]:
    """List every pattern: those of `elevated`, then one for each host command, which always needs approval."""
    elevated = agent.tools.elevated
    for index, pattern in enumerate(elevated.patterns):
        source = agent.source(f"tools.elevated.patterns[{index}]")
        yield Way(pattern=pattern, source=source, approval=elevated.require_approval, enabled=elevated.enabled)
    for index, name in enumerate(agent.sandbox.host_commands):
        source = agent.source(f"sandbox.hostCommands[{index}]")
        yield Way(pattern=f"{name} *", source=source, approval=True, enabled=True)


def decide(args: Mapping[str, Any], agent: AgentSettings, *, sender: str | None) -> Verdict[Elevation]:
    """Decide one call's arguments. Whatever is not surely meant to leave stays in."""
    open_ways = [way for way in ways(agent) if way.enabled]
    if not open_ways:
        closed = agent.tools.elevated.patterns and not agent.tools.elevated.enabled
        source = agent.source("tools.elevated.enabled")
        return _stays("elevated is not enabled" if closed else "no elevated pattern is configured", source)
    given = [name for name in _NEVER_WITH if args.get(name) not in (None, False)]
    if given:
        return _stays(f"a call with {' and '.join(given)} does not elevate", "exec arguments")
    try:
        command = commands.parse(str(args.get("command", "")))
    except commands.NotSimple as why:
        return _stays(f"not one simple command: {why}", "command")
    way = next((way for way in open_ways if patterns.matches(way.pattern, command.argv)), None)
    if way is None:
        return _stays("no elevated pattern matches", agent.source("tools.elevated.patterns"), command.argv)
    if not command.plain_name:
        return _stays("the command's name is not written to the letter", "command", command.argv)
    return _matched(way, command.argv, agent, sender)


def decide_host_command(argv: tuple[str, ...], agent: AgentSettings) -> Verdict[Elevation]:
    """Decide what a program inside asked for by a host command's name: its words as they are, by no sender."""
    listed = {name: index for index, name in enumerate(agent.sandbox.host_commands)}
    if not argv or argv[0] not in listed:
        return _stays("no host command of this name is listed", agent.source("sandbox.hostCommands"), argv)
    source = agent.source(f"sandbox.hostCommands[{listed[argv[0]]}]")
    way = Way(pattern=f"{argv[0]} *", source=source, approval=True, enabled=True)
    return _matched(way, argv, agent, None)


def _matched(way: Way, argv: tuple[str, ...], agent: AgentSettings, sender: str | None) -> Verdict[Elevation]:
    allowed = agent.tools.elevated.allow_from
    if allowed is not None and (sender is None or sender not in allowed):
        shown = "an unnamed sender" if sender is None else f'the sender "{sender}"'
        return _stays(f"{shown} is not in allowFrom", agent.source("tools.elevated.allowFrom"), argv)
    exit_ = Exit.NEEDS_APPROVAL if way.approval else Exit.GOES_OUT
    because = f'matches the pattern "{way.pattern}"'
    return Verdict(answer=Elevation(exit=exit_, argv=argv, pattern=way.pattern), because=because, source=way.source)


def _stays(because: str, source: str, argv: tuple[str, ...] | None = None) -> Verdict[Elevation]:
    return Verdict(answer=Elevation(exit=Exit.STAYS_IN, argv=argv), because=because, source=source)
