"""Explain what the configuration means for a session and a command, by the functions that the gateway decides with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.decide import check, commands, elevation, patterns, placement, policy, servers, sessions
from crabpot.decide.elevation import Decision
from crabpot.decide.known_programs import leaves_review
from crabpot.errors import HostRefused
from crabpot.frozen import dataclass
from crabpot.host_commands.git.operation import read as read_git
from crabpot.model import Place
from crabpot.spec import build

if TYPE_CHECKING:
    from crabpot.backends.registry import Registry
    from crabpot.decide.placement import Placement
    from crabpot.decide.sessions import Session
    from crabpot.model import Verdict
    from crabpot.settings import AgentSettings, Network, Sandbox, Settings
    from crabpot.spec.binds import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Explains any session under one configuration."""

    settings: Settings
    around: Surroundings
    registry: Registry

    async def explain(
        self, key: str, command: str | None = None, *, sender: str | None = None, connect: str | None = None
    ) -> dict[str, Any]:
        """Explain one session, and optionally one of its commands or one of its connections (`host:port`)."""
        session = sessions.parse(key, default_agent=self.settings.default_agent)
        agent = self.settings.agent(session.agent)
        placed = placement.decide(session, agent)
        return {
            "session": key,
            "agent": session.agent,
            "placement": {
                "where": placed.answer.where.value,
                "because": placed.because,
                "source": placed.source,
            },
            "sandbox": await self._sandbox(agent, placed.answer),
            "tools": _tools(agent, placed.answer),
            "elevated": _elevated(agent, placed.answer),
            "command": None if command is None else _command(command, agent, placed, sender),
            **({} if connect is None else {"connect": _connection(connect, agent, placed)}),
            **({} if not self.settings.mcp.servers else {"servers": self._servers(session, agent, placed.answer)}),
            "warnings": [str(finding) for finding in check.findings(agent, self.around)],
        }

    def _servers(self, session: Session, agent: AgentSettings, placed: Placement) -> list[dict[str, Any]]:
        """Return where the tools of each MCP server would run, and which of them are offered."""
        from crabpot.servers import offers  # noqa: PLC0415  most configurations have no server
        from crabpot.servers.pins import Pins  # noqa: PLC0415

        pins, rows = Pins(self.around.state), []
        for name in self.settings.mcp.servers:
            where = servers.place(name, session, agent, self.settings)
            found = offers.of(name, self.settings, pins)
            verdicts = {
                one.name: policy.decide(one.name, agent, sandboxed=placed.where is Place.SANDBOX)
                for one in found.offered.values()
            }
            acting = servers.acting(name, self.settings, agent)
            rows.append(
                {
                    "server": name,
                    "where": "remote" if where.answer.where is Place.NONE else where.answer.where.value,
                    "because": where.because,
                    "source": where.source,
                    "scope_key": where.answer.scope_key,
                    "network": shown_network(acting.sandbox.network),
                    "approved": found.because is None,
                    "effective": [tool for tool, verdict in verdicts.items() if verdict.answer],
                    "denied": {tool: verdict.source for tool, verdict in verdicts.items() if not verdict.answer},
                    "withheld": dict(found.refused) or ({} if found.because is None else {"*": found.because}),
                }
            )
        return rows

    async def _sandbox(self, agent: AgentSettings, placed: Placement) -> dict[str, Any]:
        spec = None if placed.scope_key is None else build.build(agent, placed.scope_key, self.around)
        sandbox = agent.sandbox
        backend, clauses = (sandbox.backend, ()) if spec is None else await self.registry.clauses(spec)
        return {
            "mode": sandbox.mode,
            "scope": sandbox.scope,
            "workspace": sandbox.workspace,
            **_places(sandbox),
            "backend": backend,
            "network": shown_network(sandbox.network),
            "name": spec and spec.name,
            "hash": spec and spec.hash,
            "clauses": [clause.as_json() for clause in clauses],
        }


def _places(sandbox: Sandbox) -> dict[str, str]:
    """Return where the folder and the home are, if not where they usually are."""
    home = {} if sandbox.home is None else {"home": sandbox.home}
    return ({"workspaceAt": "same"} if build.shown_at_own_path(sandbox) else {}) | home


def shown_network(network: Network) -> str | dict[str, Any]:
    """Return a network as it is written in the configuration."""
    if network.name != "allow":
        return network.name
    raw = {"raw": list(network.raw)} if network.raw else {}
    return {"allow": list(network.allow), **raw, "ask": network.ask}


def _tools(agent: AgentSettings, placed: Placement) -> dict[str, Any]:
    sandboxed = placed.where is Place.SANDBOX
    verdicts = {name: policy.decide(name, agent, sandboxed=sandboxed) for name in policy.listed(agent)}
    unset = "full" if agent.tools.allow is None else None
    return {
        "profile": agent.tools.profile or unset,
        "effective": [name for name, verdict in verdicts.items() if verdict.answer],
        "denied": {name: verdict.source for name, verdict in verdicts.items() if not verdict.answer},
    }


def _elevated(agent: AgentSettings, placed: Placement) -> dict[str, Any]:
    sandboxed = placed.where is Place.SANDBOX
    runs = policy.decide("exec", agent, sandboxed=sandboxed).answer
    rows = [
        {
            "pattern": rule.pattern,
            "approval": rule.approval,
            "reachable": rule.enabled and runs and sandboxed and _is_offered(rule.pattern, agent),
            "confine": rule.confine,
            "writes": list(rule.writes),
            "credentials": list(rule.credentials),
        }
        for rule in elevation.rules(agent)
    ]
    guarded = any(row["reachable"] and row["confine"] == "guarded" for row in rows)
    return {"enabled": agent.tools.elevated.enabled, "patterns": rows, "clauses": _guard(agent) if guarded else []}


def _is_offered(pattern: str, agent: AgentSettings) -> bool:
    """Return whether a pattern can match, and what it matches may run where the folder is under review."""
    reviewed = agent.sandbox.workspace == "review"
    return patterns.problem_with(pattern) is None and (not reviewed or leaves_review(tuple(pattern.split())))


def _guard(agent: AgentSettings) -> list[dict[str, Any]]:
    """Return how this machine enforces a guard; looked up only where a command can be elevated."""
    from crabpot.host_commands.guard.clauses import clauses  # noqa: PLC0415  most configurations have no pattern

    return [clause.as_json() for clause in clauses(host_user=agent.sandbox.host_user)]


def _command(command: str, agent: AgentSettings, placed: Verdict[Placement], sender: str | None) -> dict[str, Any]:
    sandboxed = placed.answer.where is Place.SANDBOX
    allowed = policy.decide("exec", agent, sandboxed=sandboxed)
    verdict = elevation.decide({"command": command}, agent, sender=sender)
    argv = _words(command)
    if not allowed.answer:
        return _answer(argv, "blocked", allowed, "exec is not allowed: ")
    if not sandboxed:
        return _answer(argv, "host", placed)
    if verdict.answer.decision is Decision.SANDBOXED:
        return _answer(argv, "sandbox", verdict)
    assert verdict.answer.rule is not None
    confine = "user" if agent.sandbox.host_user is not None else verdict.answer.rule.confine
    if argv is not None:
        try:
            if confine == "guarded" and argv[0] == "git":
                read_git(argv)
            under_review = agent.sandbox.workspace == "review"
            if under_review or agent.sandbox.backend == "kubernetes":
                from crabpot.host_commands import reviewed  # noqa: PLC0415  most configurations have none

                reviewed.check(argv, confined=confine == "guarded", in_pod=not under_review)
        except HostRefused as refusal:
            return _answer(argv, "blocked", verdict) | {"because": str(refusal)}
    return _answer(argv, "host", verdict) | {
        "approval": verdict.answer.decision is Decision.NEEDS_APPROVAL,
        "confine": confine,
    }


def _connection(text: str, agent: AgentSettings, placed: Verdict[Placement]) -> dict[str, Any]:
    """Return what would happen to a connection, as far as is known before its name is resolved."""
    # Only this question needs them; every start of `explain` would pay for the import.
    from crabpot.egress.destinations import BadDestination, read_authority  # noqa: PLC0415
    from crabpot.egress.resolving import in_hosts_file  # noqa: PLC0415
    from crabpot.egress.routes import is_own  # noqa: PLC0415
    from crabpot.egress.rules import Reach, rules  # noqa: PLC0415

    try:
        destination = read_authority(text, default_port=443)
    except BadDestination as error:
        return {"place": text, "answer": "refused", "because": str(error)}
    if placed.answer.where is Place.HOST:
        because = f"the session runs on the host, whose connections nobody checks: {placed.because} ({placed.source})"
        return {"place": str(destination), "answer": "unchecked", "because": because}
    found = rules(agent)
    verdict = found.decide(destination)
    answer, because = verdict.answer, f"{verdict.because} ({verdict.source})"
    known = in_hosts_file(destination.host) if destination.address is None else (destination.address,)
    if answer is Reach.ALLOWED:
        forbidden = (found.forbid(address, destination.port, is_own) for address in known)
        wrong = next((one for one in forbidden if one is not None), None)
        if wrong is not None:
            answer, because = Reach.REFUSED, f"{wrong} ({verdict.source})"
        elif destination.address is None:
            because += "; every address that it leads to is checked when it is dialled"
    return {"place": str(destination), "answer": answer.value, "because": because}


def _words(command: str) -> list[str] | None:
    """Return the words, even where no pattern had to look at them."""
    try:
        return list(commands.parse(command).argv)
    except commands.NotSimple:
        return None


def _answer(argv: list[str] | None, where: str, verdict: Verdict[Any], prefix: str = "") -> dict[str, Any]:
    because = f"{prefix}{verdict.because} ({verdict.source})"
    return {"argv": argv, "where": where, "approval": False, "confine": None, "because": because}
