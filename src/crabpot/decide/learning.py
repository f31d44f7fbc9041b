"""Derive from a session's audit records the least configuration that it needed.

Only what was used is proposed. What was refused is listed with the change that would allow it, for a person to decide:
the session may have been hostile.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from crabpot.decide import commands, patterns
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from crabpot.settings import AgentSettings, Elevated

    Record = Mapping[str, Any]

_RAN = ("sandbox", "host")
# The setting behind each limit that a call can run into.
_LIMITS = {
    "timeout": "timeLimit",
    "memory_limit": "memory",
    "process_limit": "pids",
    "disk_limit": "disk",
    "output_limit": "output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One value to set, and why."""

    path: str
    value: Any
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What the session was refused, by which rule, and the change that would allow it, if there is one."""

    what: str
    because: str
    change: tuple[str, str] | None
    """A path of the configuration, and the value to set there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one session teaches."""

    session: str
    agent: str
    calls: int
    incomplete: bool
    """Whether records of the agent were withheld from the log."""
    proposals: tuple[Proposal, ...]
    refusals: tuple[Refusal, ...]
    inherited: tuple[str, ...]
    """Places that the defaults allow and the session did not use: lists add up, so that no entry takes them away."""

    @property
    def suspicious(self) -> bool:
        """Return whether anything was refused: then the session may have been hostile."""
        return bool(self.refusals)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that `learn --json` prints."""
        return {**asdict(self), "suspicious": self.suspicious}


def learn(
    records: Iterable[Record], session: str, agent: AgentSettings, defaults: AgentSettings | None = None
) -> Lesson:
    """Return what a session's records say that its agent needs, beyond what the defaults give to every agent."""
    own: list[Record] = []
    incomplete = False
    for record in records:
        if record.get("session") == session:
            own.append(record)
        incomplete |= record["kind"] in ("gap", "withheld") and record.get("agent", agent.id) == agent.id
    calls = [record for record in own if record["kind"] == "call"]
    prefix = f"agents.entries.{agent.id}"
    used = _places(own)
    given = set() if defaults is None else set(defaults.sandbox.network.allow)
    proposals = (
        *_tools(calls, agent, prefix),
        *_network(own, agent, given, prefix),
        *_patterns(own, agent.tools.elevated, prefix),
    )
    return Lesson(
        session=session,
        agent=agent.id,
        calls=len(calls),
        incomplete=incomplete,
        proposals=proposals,
        refusals=tuple(_refusals(own, agent, prefix)),
        inherited=tuple(sorted(given - used.keys())) if used else (),
    )


def _tools(calls: Sequence[Record], agent: AgentSettings, prefix: str) -> Iterator[Proposal]:
    used = Counter(call["tool"] for call in calls if call["place"] in _RAN)
    # An allow list adds to a profile and to the list of the defaults: it narrows neither.
    if used and agent.tools.profile is None and agent.tools.allow is None:
        times = ", ".join(f"{tool} {counted(count, 'time')}" for tool, count in sorted(used.items()))
        yield Proposal(path=f"{prefix}.tools.allow", value=sorted(used), because=f"called: {times}")


def _connections(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["kind"] == "connection" and _server(record) is None]


def _places(records: Iterable[Record]) -> Counter[str]:
    """Return the places that were reached, and how often."""
    reached = ("allowed", "injected")
    return Counter(one["destination"] for one in _connections(records) if one["answer"] in reached)


def _network(records: Sequence[Record], agent: AgentSettings, given: set[str], prefix: str) -> Iterator[Proposal]:
    used, network = _places(records), agent.sandbox.network
    if not used:
        if network.name != "none" and records and not _connections(records):
            yield Proposal(path=f"{prefix}.sandbox.network", value="none", because="no connection was tried")
        return
    times = ", ".join(f"{place} {counted(count, 'time')}" for place, count in sorted(used.items()))
    needed = sorted(used.keys() - given)
    if network.name != "allow":
        yield Proposal(path=f"{prefix}.sandbox.network", value={"allow": needed}, because=f"connected to {times}")
    elif needed != sorted(set(network.allow) - given):
        yield Proposal(path=f"{prefix}.sandbox.network.allow", value=needed, because=f"connected to {times}")


def _patterns(records: Sequence[Record], elevated: Elevated, prefix: str) -> Iterator[Proposal]:
    ran = Counter(
        record["shown"] for record in records if record["kind"] == "intent" and record.get("by") and record.get("shown")
    )
    found = sorted(filter(None, map(_pattern, ran)))
    if not found:
        if elevated.enabled and records and not ran:
            yield Proposal(path=f"{prefix}.tools.elevated.enabled", value=False, because="no command ran on the host")
        return
    told = ", ".join(f"`{text}` {counted(count, 'time')}" for text, count in sorted(ran.items()))
    if not elevated.enabled:
        yield Proposal(path=f"{prefix}.tools.elevated.enabled", value=True, because="commands ran on the host")
    if found != sorted(one if isinstance(one, str) else one.pattern for one in elevated.patterns):
        kept = [_as_written(text, elevated) for text in found]
        yield Proposal(path=f"{prefix}.tools.elevated.patterns", value=kept, because=f"ran on the host: {told}")


def _pattern(shown: str) -> str | None:
    """Return the pattern that matches just this command, or None if no pattern can say it."""
    try:
        argv = commands.parse(shown).argv
    except commands.NotSimple:
        return None
    text = " ".join(argv)
    plain = not any(set(word) & set("*?") or shlex.quote(word) != word for word in argv)
    return text if plain and patterns.problem_with(text) is None else None


def _as_written(text: str, elevated: Elevated) -> Any:
    """Return the pattern with the confinement of the wider one that it comes from."""
    argv = tuple(text.split())
    for one in elevated.patterns:
        if not isinstance(one, str) and patterns.matches(one.pattern, argv):
            options = {"confine": one.confine, "writes": list(one.writes), "credentials": list(one.credentials)}
            return {"pattern": text, **{name: value for name, value in options.items() if value}}
    return text


def _refusals(records: Sequence[Record], agent: AgentSettings, prefix: str) -> Iterator[Refusal]:
    """Yield each thing that was refused, once."""
    seen: set[str] = set()
    for record in records:
        refusal = _refused_connection(record, agent, prefix) or _refused_call(record, prefix)
        if refusal is not None and refusal.what not in seen:
            seen.add(refusal.what)
            yield refusal


def _refused_connection(record: Record, agent: AgentSettings, prefix: str) -> Refusal | None:
    if record["kind"] != "connection" or record["answer"] != "refused":
        return None
    place, server = record["destination"], _server(record)
    if server is not None:
        # Recorded at all, so the server has a list: one without any network has no way to try.
        change = (f"mcp.servers.{server}.sandbox.network.allow[+]", json.dumps(place))
        return Refusal(what=f"a connection to {place} by the server {server}", because=record["because"], change=change)
    path = f"{prefix}.sandbox.network"
    listed = agent.sandbox.network.name == "allow"
    change = (f"{path}.allow[+]", json.dumps(place)) if listed else (path, json.dumps({"allow": [place]}))
    return Refusal(what=f"a connection to {place}", because=record["because"], change=change)


def _server(record: Record) -> str | None:
    """Return the MCP server that a connection is from, or None: its settings are not the agent's."""
    kind, _, rest = str(record.get("scope", "")).partition(":")
    return rest.partition(":")[0] if kind == "server" else None


def _refused_call(record: Record, prefix: str) -> Refusal | None:
    if record["kind"] != "call":
        return None
    error, because = record["error"], f"{record['because']} ({record['rule']})"
    if error == "denied":
        return Refusal(what=f"the tool {record['tool']}", because=because, change=None)
    if error in ("approval_denied", "approval_timeout"):
        command = record["args"].get("command", record["tool"])
        return Refusal(what=f"the command {command} on the host", because=because, change=None)
    if error in _LIMITS:
        name = f"limits.{_LIMITS[error]}"
        change = (f"{prefix}.sandbox.{name}", "VALUE")
        return Refusal(what=f"more than {name} allows", because=f"a call ran into {name}", change=change)
    return None
