"""Decide whether one `exec` command stays in the sandbox, needs approval, or runs on the host."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from crabpot.decide import commands, patterns
from crabpot.frozen import dataclass
from crabpot.model import Place, Verdict
from crabpot.settings import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.decide.placement import Placement
    from crabpot.model import ToolCall
    from crabpot.settings import AgentSettings, Confine

# With its own environment, input or terminal, a command is more than the words that a person is shown.
NEVER_WITH = ("env", "stdin", "tty")


class Decision(IntEnum):
    """What becomes of a command; the strictest is the highest."""

    ELEVATED = 0
    NEEDS_APPROVAL = 1
    SANDBOXED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ElevationRule:
    """One pattern that elevates commands, and where it is written."""

    pattern: str
    source: str
    approval: bool
    enabled: bool
    confine: Confine = "guarded"
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    grants_at: str = ""
    """Where `confine`, `writes` and `credentials` are or would be written, if not at the source."""

    @property
    def grants(self) -> str:
        """Where to write `confine`, `writes` and `credentials`."""
        return self.grants_at or self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Elevation:
    """The decision on one command: the words it was parsed into, and the rule that matched them."""

    decision: Decision
    argv: tuple[str, ...] | None = None
    rule: ElevationRule | None = None

    @property
    def pattern(self) -> str | None:
        """The pattern that matched the words."""
        return None if self.rule is None else self.rule.pattern


def rules(agent: AgentSettings) -> Iterator[ElevationRule]:
    """Yield every rule: those of `elevated`, then one for each host command, which always needs approval."""
    yield from _written(agent)
    yield from (_host_command(agent, index) for index in range(len(agent.sandbox.host_commands)))


def is_open(agent: AgentSettings) -> bool:
    """Return whether any rule is enabled, without making them all: most agents have none."""
    elevated = agent.tools.elevated
    return bool(agent.sandbox.host_commands or (elevated.enabled and elevated.patterns))


def _written(agent: AgentSettings) -> Iterator[ElevationRule]:
    elevated = agent.tools.elevated
    for index, written in enumerate(elevated.patterns):
        one = Pattern(pattern=written) if isinstance(written, str) else written
        yield ElevationRule(
            pattern=one.pattern,
            source=agent.source(f"tools.elevated.patterns[{index}]"),
            approval=elevated.require_approval,
            enabled=elevated.enabled,
            confine=one.confine or elevated.confine,
            writes=one.writes,
            credentials=one.credentials,
        )


def _host_command(agent: AgentSettings, index: int) -> ElevationRule:
    source = agent.source(f"sandbox.hostCommands[{index}]")
    pattern = f"{agent.sandbox.host_commands[index]} *"
    return ElevationRule(
        pattern=pattern,
        source=source,
        approval=True,
        enabled=True,
        confine=agent.tools.elevated.confine,
        grants_at=f'a pattern "{pattern}" in tools.elevated.patterns',
    )


def decide(args: Mapping[str, Any], agent: AgentSettings, *, sender: str | None) -> Verdict[Elevation]:
    """Decide on one call's arguments. Unless it certainly matches a pattern, a command stays in the sandbox."""
    enabled = [rule for rule in rules(agent) if rule.enabled]
    if not enabled:
        closed = agent.tools.elevated.patterns and not agent.tools.elevated.enabled
        source = agent.source("tools.elevated.enabled")
        return _stays("elevated is not enabled" if closed else "no elevated pattern is configured", source)
    given = [name for name in NEVER_WITH if args.get(name) not in (None, False)]
    if given:
        return _stays(f"a call with {' and '.join(given)} is never elevated", "exec arguments")
    if isinstance(args.get("command"), list):
        return _stays("a command given as a list is never elevated", "exec arguments")
    try:
        command = commands.parse(str(args.get("command", "")))
    except commands.NotSimple as why:
        return _stays(f"not one simple command: {why}", "command")
    rule = next((rule for rule in enabled if patterns.matches(rule.pattern, command.argv)), None)
    if rule is None:
        return _stays("no elevated pattern matches", agent.source("tools.elevated.patterns"), command.argv)
    if not command.plain_name:
        return _stays("the command's name is quoted or escaped", "command", command.argv)
    return _matched(rule, command.argv, agent, sender)


def of_call(call: ToolCall, agent: AgentSettings, placed: Placement) -> Verdict[Elevation] | None:
    """Return the decision to run a command on the host, or None: nearly everything stays where it was placed."""
    if call.tool != "exec" or placed.where is not Place.SANDBOX or not is_open(agent):
        return None
    decided = decide(call.args, agent, sender=call.sender)
    return None if decided.answer.decision is Decision.SANDBOXED else decided


def decide_host_command(argv: tuple[str, ...], agent: AgentSettings) -> Verdict[Elevation]:
    """Decide on a host command that a program inside asked for: its argv as it is, with no sender."""
    listed = (index for index, name in enumerate(agent.sandbox.host_commands) if _begins(argv, name))
    index = next(listed, None)
    if index is None:
        return _stays("no host command of this name is listed", agent.source("sandbox.hostCommands"), argv)
    rule = _host_command(agent, index)
    # A pattern that matches the same words also says how they are confined.
    same = next((one for one in _written(agent) if patterns.matches(one.pattern, argv)), None)
    if same is not None:
        rule = replace(
            rule, confine=same.confine, writes=same.writes, credentials=same.credentials, grants_at=same.source
        )
    return _matched(rule, argv, agent, None)


def _begins(argv: tuple[str, ...], name: str) -> bool:
    """Return whether a command is the listed one: its name, or its name and its subcommand."""
    words = tuple(name.split(" "))
    return argv[: len(words)] == words


def _matched(
    rule: ElevationRule, argv: tuple[str, ...], agent: AgentSettings, sender: str | None
) -> Verdict[Elevation]:
    allowed = agent.tools.elevated.allow_from
    if allowed is not None and (sender is None or sender not in allowed):
        shown = "an unnamed sender" if sender is None else f'the sender "{sender}"'
        return _stays(f"{shown} is not in allowFrom", agent.source("tools.elevated.allowFrom"), argv)
    decision = Decision.NEEDS_APPROVAL if rule.approval else Decision.ELEVATED
    because = f'matches the pattern "{rule.pattern}"'
    return Verdict(answer=Elevation(decision=decision, argv=argv, rule=rule), because=because, source=rule.source)


def _stays(because: str, source: str, argv: tuple[str, ...] | None = None) -> Verdict[Elevation]:
    return Verdict(answer=Elevation(decision=Decision.SANDBOXED, argv=argv), because=because, source=source)
