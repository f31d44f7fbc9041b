"""Decide whether one session may use one tool: profile, plus allow, minus deny, and deny is absolute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabpot.decide.tools import ALIASES, GROUPS, IMPLIED_DENIALS, OPERATIONS, PROFILES, TOOLS
from crabpot.frozen import dataclass
from crabpot.model import Verdict
from crabpot.wording import closest, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabpot.settings import AgentSettings

DENIED = "deny is absolute"

_NAME = re.compile(r"[a-z0-9][a-z0-9_.:/-]{0,127}")


def canonical(name: str) -> str:
    """Return a tool's name trimmed, in lower case and un-aliased. Only ASCII is folded: the Kelvin sign is not `k`."""
    folded = name.strip(" \t")
    folded = folded.lower() if folded.isascii() else folded
    return ALIASES.get(folded, folded)


def problem_with(rule: str, extra: Iterable[str] = ()) -> str | None:
    """Return why an entry of allow or deny names nothing, or None."""
    name = canonical(rule)
    known = {*TOOLS, *map(canonical, extra)}
    if not name:
        return "an empty name"
    if name.startswith("group:"):
        return None if name in GROUPS else f'unknown group "{rule}"{closest(name, GROUPS) or one_of(GROUPS)}'
    if "*" in name or name in known or _is_mcp(name):
        return None
    near = closest(name, [*known, *GROUPS]) or "; if a program registers it, list it in tools.extra"
    return f'unknown tool "{rule}"{near}'


def problem_with_extra(name: str) -> str | None:
    """Return why a program cannot register a tool of this name, or None."""
    folded = canonical(name)
    if _NAME.fullmatch(folded) and not folded.startswith("group:"):
        return None
    return f'"{name}" cannot be the name of a tool; use letters, digits, _ and -'


def problem_with_profile(profile: str) -> str | None:
    """Return why this is not a profile, or None."""
    near = closest(profile, PROFILES) or one_of(PROFILES)
    return None if profile in PROFILES else f'unknown profile "{profile}"{near}'


def decide(tool: str, agent: AgentSettings, *, sandboxed: bool) -> Verdict[bool]:
    """Decide on one tool. The strictest rule wins: a deny before an allow, an earlier layer before a later one."""
    name = OPERATIONS.get(canonical(tool)) or canonical(tool)
    if not _known(name, agent):
        near = closest(name, effective(agent, sandboxed=sandboxed))
        return Verdict(answer=False, because=f"no such tool{near}", source="catalogue")
    denied = _first(_denials(agent, sandboxed=sandboxed), name)
    if denied is not None:
        return Verdict(answer=False, because=DENIED, source=denied.shown)
    granted = _first(_grants(agent), name)
    if granted is None:
        return Verdict(answer=False, because="not in the profile, nor in allow", source=_base(agent))
    narrowed = _narrowed(agent, name) if sandboxed else None
    return narrowed or Verdict(answer=True, because="allowed", source=granted.shown)


def effective(agent: AgentSettings, *, sandboxed: bool) -> tuple[str, ...]:
    """List the allowed tools in the catalogue's order, those of `extra` last."""
    return tuple(name for name in listed(agent) if decide(name, agent, sandboxed=sandboxed).answer)


def listed(agent: AgentSettings) -> tuple[str, ...]:
    """List every known tool, allowed or not."""
    return tuple(dict.fromkeys((*TOOLS, *map(canonical, agent.tools.extra))))


def covered(rule: str, agent: AgentSettings) -> tuple[str, ...]:
    """List the known tools that an entry of allow or deny matches."""
    entry = _Entry(rule=rule, source="")
    return tuple(name for name in listed(agent) if entry.covers(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One rule and where it is written."""

    rule: str
    source: str
    denies: bool = False

    @property
    def shown(self) -> str:
        return f'{self.source} "{self.rule}"'

    def covers(self, name: str) -> bool:
        rule = canonical(self.rule)
        names = GROUPS.get(rule, (rule,))
        if any(matches(pattern, name) for pattern in names):
            return True
        return self.denies and any(
            name in implied and any(matches(pattern, first) for pattern in names)
            for first, implied in IMPLIED_DENIALS.items()
        )


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a glob in which only `*` is special."""
    if "*" not in pattern:
        return pattern == name
    first, *middle, last = map(re.escape, pattern.split("*"))
    # Atomic groups: the shortest match of each part is as good as any, and trying others could take an agent's
    # long name polynomial time.
    expression = first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _known(name: str, agent: AgentSettings) -> bool:
    return name in listed(agent) or _is_mcp(name)


def _is_mcp(name: str) -> bool:
    server, _, tool = name.partition("__")
    return bool(server and tool and _NAME.fullmatch(name))


def _first(entries: Iterable[_Entry], name: str) -> _Entry | None:
    return next((entry for entry in entries if entry.covers(name)), None)


def _entries(agent: AgentSettings, path: str, rules: tuple[str, ...], *, denies: bool = False) -> Iterator[_Entry]:
    for index, rule in enumerate(rules):
        yield _Entry(rule=rule, source=agent.source(f"{path}[{index}]"), denies=denies)


def _denials(agent: AgentSettings, *, sandboxed: bool) -> Iterator[_Entry]:
    yield from _entries(agent, "tools.deny", agent.tools.deny, denies=True)
    if sandboxed:
        yield from _entries(agent, "tools.sandbox.deny", agent.tools.sandbox.deny, denies=True)


def _grants(agent: AgentSettings) -> Iterator[_Entry]:
    """Yield the granting rules: without a profile, allow is the whole set; with neither, the profile is full."""
    profile, allow = agent.tools.profile, agent.tools.allow
    if profile is not None or allow is None:
        source = agent.source("tools.profile")
        rules = PROFILES[profile or "full"]
        yield from (_Profiled(rule=rule, source=source, profile=profile or "full") for rule in rules)
    yield from _entries(agent, "tools.allow", allow or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profiled(_Entry):
    """A rule from a profile, shown under the profile's name."""

    profile: str

    @property
    def shown(self) -> str:
        where = "tools.profile" if self.source == "default" else self.source
        return f'{where} "{self.profile}"' + (" (default)" if self.source == "default" else "")


def _base(agent: AgentSettings) -> str:
    """Return the name of the list that a tool would have to be in."""
    profile = agent.tools.profile
    if profile is not None:
        return f'{agent.source("tools.profile")} "{profile}"'
    return agent.source("tools.allow")


def _narrowed(agent: AgentSettings, name: str) -> Verdict[bool] | None:
    allow = agent.tools.sandbox.allow
    if allow is None or _first(_entries(agent, "tools.sandbox.allow", allow), name):
        return None
    source = agent.source("tools.sandbox.allow")
    return Verdict(answer=False, because="not in the sandbox's own allow list", source=source)
