"""Decide whether one `exec` command stays in the sandbox, needs a person's word, or goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from crabpot.decide import commands, patterns
from crabpot.model import Verdict
from crabpot.settings import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.settings import AgentSettings, Confine

# A command that brings its own environment, input or terminal is more than the words a person is shown.
_NEVER_WITH = ("env", "stdin", "tty")


class Exit(IntEnum):
    """What a command gets, the strictest highest."""

    GOES_OUT = 0
    NEEDS_APPROVAL = 1
    STAYS_IN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One pattern by which a command may leave, and where it is written."""

    pattern: str
    source: str
    approval: bool
    enabled: bool
    confine: Confine = "guarded"
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elevation:
    """The decision on one command: the words it was read as, and the pattern that took them."""

    exit: Exit
    argv: tuple[str, ...] | None = None
    way: Way | None = None

    @property
    def pattern(self) -> str | None:
        """The pattern that took the words."""
        return None if self.way is None else self.way.pattern


def ways(agent: AgentSettings) -> Iterator[Way]:
    """List every pattern: those of `elevated`, then one for each host command, which always needs approval."""
    yield from _written(agent)
    yield from (_host_command(agent, index) for index in range(len(agent.sandbox.host_commands)))


def _written(agent: AgentSettings) -> Iterator[Way]:
    elevated = agent.tools.elevated
    for index, written in enumerate(elevated.patterns):
        one = Pattern(pattern=written) if isinstance(written, str) else written
        yield Way(
            pattern=one.pattern,
            source=agent.source(f"tools.elevated.patterns[{index}]"),
            approval=elevated.require_approval,
            enabled=elevated.enabled,
            confine=one.confine or elevated.confine,
            writes=one.writes,
            credentials=one.credentials,
        )


def _host_command(agent: AgentSettings, index: int) -> Way:
    source = agent.source(f"sandbox.hostCommands[{index}]")
    pattern = f"{agent.sandbox.host_commands[index]} *"
    return Way(pattern=pattern, source=source, approval=True, enabled=True, confine=agent.tools.elevated.confine)


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
    way = _host_command(agent, listed[argv[0]])
    # A pattern for the same words says how they are confined, however they leave.
    same = next((one for one in _written(agent) if patterns.matches(one.pattern, argv)), None)
    if same is not None:
        way = replace(way, confine=same.confine, writes=same.writes, credentials=same.credentials)
    return _matched(way, argv, agent, None)


def _matched(way: Way, argv: tuple[str, ...], agent: AgentSettings, sender: str | None) -> Verdict[Elevation]:
    allowed = agent.tools.elevated.allow_from
    if allowed is not None and (sender is None or sender not in allowed):
        shown = "an unnamed sender" if sender is None else f'the sender "{sender}"'
        return _stays(f"{shown} is not in allowFrom", agent.source("tools.elevated.allowFrom"), argv)
    exit_ = Exit.NEEDS_APPROVAL if way.approval else Exit.GOES_OUT
    because = f'matches the pattern "{way.pattern}"'
    return Verdict(answer=Elevation(exit=exit_, argv=argv, way=way), because=because, source=way.source)


def _stays(because: str, source: str, argv: tuple[str, ...] | None = None) -> Verdict[Elevation]:
    return Verdict(answer=Elevation(exit=Exit.STAYS_IN, argv=argv), because=because, source=source)
