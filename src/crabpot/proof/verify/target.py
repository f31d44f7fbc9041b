"""What is attacked: one session of a gateway, and a second one beside it for claims about neighbours."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.approvals.desk import Desk
from crabpot.approvals.requests import Answer
from crabpot.backends import runner_source
from crabpot.backends.base import greeting
from crabpot.config.load import from_text
from crabpot.config.places import find_config
from crabpot.decide import placement, sessions
from crabpot.decide.elevation import ElevationRule, rules
from crabpot.decide.patterns import matches
from crabpot.gateway import Gateway
from crabpot.host_commands.host import Host
from crabpot.host_commands.plan import check
from crabpot.layers.changes.applying import apply
from crabpot.layers.store import LayerStore
from crabpot.proof.verify.claims import NotCarriedOut, Outcome
from crabpot.proof.verify.impostor import Impostor
from crabpot.proof.verify.programs import program, read_report
from crabpot.sandboxes.live import Wanted
from crabpot.spec import hardening
from crabpot.spec.network import proxy_environment
from crabpot.spec.seccomp.numbers import numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.approvals.requests import Request
    from crabpot.host_commands.plan import Plan
    from crabpot.layers.layer import Layer
    from crabpot.model import ToolResult
    from crabpot.proof.verify.bait import Bait
    from crabpot.proof.verify.claims import Claim
    from crabpot.proof.verify.programs import Report
    from crabpot.proof.verify.world import World
    from crabpot.sandboxes.live import Live
    from crabpot.settings import AgentSettings, Limits, McpServer, Network, Sandbox, Settings
    from crabpot.spec.spec import SandboxSpec

_TIMEOUT_S = 20.0
# What prepares an attack is many small programs, and says nothing about limits.
_PREPARING_S = 60.0
# An interpreter inside starts in less on most machines; one that is emulated takes ten times as long.
_USUAL_S, _SLOWEST = 0.2, 20.0
_LINE_S, _LINE_POLL_S = 10.0, 0.05


def _rule(argv: tuple[str, ...]) -> ElevationRule:
    """Return a way out for a command that no pattern of the session's takes."""
    return ElevationRule(pattern=f"{argv[0]} *", source="crabpot verify", approval=True, enabled=True)


class Agreeing:
    """An operator who agrees to everything, in one way."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def ask(self, _request: Request) -> Answer | None:
        """Agree."""
        return self._answer


class Target:
    """A session, attacked only in the ways that its agent has: tool calls through the gateway."""

    def __init__(
        self, gateway: Gateway, session: str, bait: Bait, *, other: Target | None = None, guarded: tuple[str, ...] = ()
    ) -> None:
        self.gateway = gateway
        self.session = session
        self.bait = bait
        self.guarded = guarded
        self._other = other
        key = sessions.parse(session, default_agent=gateway.settings.default_agent)
        self.agent: AgentSettings = gateway.settings.agent(key.agent)
        self._placed = placement.decide(key, self.agent).answer
        # How many times slower than usual this machine is: what an attack may take follows it.
        self.pace = 1.0

    async def measure(self) -> None:
        """Find out how slow this machine is, by how long an interpreter takes to start inside; once it is warm."""
        took = _USUAL_S
        for _ in range(2):
            began = time.monotonic()
            if not (await self.shell("exec python3 -I -c pass", timeout_s=self.paced(_TIMEOUT_S))).success:
                return
            took = time.monotonic() - began
        self.pace = min(max(took / _USUAL_S, self.pace), _SLOWEST)
        if self._other is not None:
            self._other.pace = self.pace

    def paced(self, usual_s: float) -> float:
        """Return how long this machine may take for what usually takes so long, within what a call may ask for."""
        return min(usual_s * self.pace, self.limits.time_ceiling)

    @property
    def other(self) -> Target:
        """Return the neighbour: a session of the same gateway with a sandbox of its own."""
        if self._other is None:
            raise NotCarriedOut("this claim needs a second sandbox, and there is none")
        return self._other

    @property
    def limits(self) -> Limits:
        """Return what the sandbox may use."""
        return self.agent.sandbox.limits

    @property
    def spec(self) -> SandboxSpec:
        """Return the spec of the sandbox; a session on the host has none."""
        if self._placed.scope_key is None:
            raise NotCarriedOut(f"{self.session} runs on the host")
        return self.gateway.execution.describe(self.agent, self._placed.scope_key)[0]

    @property
    def workspace(self) -> str:
        """Return where its own folder is, as seen inside."""
        return self.agent.workspace if self._placed.scope_key is None else hardening.WORKSPACE

    @property
    def proxy_variables(self) -> tuple[str, ...]:
        """Return what the environment has beside the configured: the way to the gateway's own proxy, if any."""
        if self._placed.scope_key is None or not self.spec.network.proxied:
            return ()
        return tuple(proxy_environment(self.spec.network))

    @property
    def has_image(self) -> bool:
        """Return whether its system comes from an image, rather than being the host's own programs."""
        return self._placed.scope_key is not None and self.spec.backend in ("docker", "kubernetes")

    def gives_away(self, claim: Claim) -> str | None:
        """Return how the configuration itself opens what a claim is about; None if the claim is made."""
        kind = self.spec.network.kind if self._placed.scope_key is not None else "none"
        return f"network is {kind}, as configured: this is not claimed" if kind in claim.open_on else None

    async def degraded(self, clause: str | None) -> str | None:
        """Return how the backend announced that it keeps only a part of a clause here; None if it keeps all of it."""
        if clause is None or self._placed.scope_key is None:
            return None
        _, clauses = await self.gateway.execution.registry.clauses(self.spec)
        return next((one.how for one in clauses if one.name == clause and one.state == "degraded"), None)

    def load(self, text: str) -> Settings:
        """Load a configuration as the gateway would; ConfigError if it is refused."""
        return from_text(text, None, self.gateway.execution.around, self.gateway.execution.environ)

    def find(self, environ: Mapping[str, str], home: str) -> str | None:
        """Look for a configuration as a gateway that is started here would."""
        return find_config(None, environ, home)

    def hash_of(self, spec: SandboxSpec) -> str:
        """Return what tells one sandbox from another."""
        return spec.hash

    def desk(self) -> Desk:
        """Open a desk over the gateway's own approvals, as another process of the operator would; the caller closes."""
        return Desk(self.gateway.execution.around.state)

    def listener(self) -> list[str]:
        """Return the words that start a runner on a socket of its own."""
        return [sys.executable, "-I", "-S", runner_source.PROGRAM]

    async def plan(self, *argv: str, cwd: str | None = None) -> Plan:
        """Plan a host command as a request of this session would; HostRefused says why not."""
        execution = self.gateway.execution
        host = Host(settings=self.gateway.settings, around=execution.around, environ=execution.environ)
        rule = next((rule for rule in rules(self.agent) if matches(rule.pattern, argv)), None)
        return await host.prepare(argv, self.agent, self.spec, rule or _rule(argv), cwd=cwd)

    def apply(self, layer: Layer, *, gated: bool) -> None:
        """Apply a layer as a person would who agrees to all of it, or to all that is not held."""
        apply(layer, gated=gated)

    async def look_again(self, plan: Plan) -> None:
        """Check a plan again as is done just before its start; HostRefused if something has changed."""
        await check(plan)

    async def call(self, tool: str, **args: Any) -> ToolResult:
        """Call a tool as the agent would."""
        return await self.gateway.call(self.session, tool, args)

    async def shell(self, command: str, *, timeout_s: float | None = None, **args: Any) -> ToolResult:
        """Run shell text inside, for as long as this machine may take, or as is said."""
        limit_s = self.paced(_TIMEOUT_S) if timeout_s is None else timeout_s
        return await self.call("exec", command=command, timeout=limit_s, **args)

    async def leave(self, command: str, *, answer: Answer | None = None) -> ToolResult:
        """Ask for a host command, where a pattern matches it and an operator agrees, or gives this answer."""
        agreeing = Agreeing(answer or Answer(allowed=True, by="crabpot verify"))
        detach = self.gateway.desk.attach(agreeing, scope_key=self.spec.scope_key)
        try:
            return await self.shell(command)
        finally:
            detach()

    async def must_run(self, command: str, **args: Any) -> str:
        """Run shell text that prepares an attack, and return what it printed; if it fails there is no attack."""
        args.setdefault("timeout_s", self.paced(_PREPARING_S))
        # Not by a shim: what prepares an attack on git is made by the sandbox's own.
        result = await self.shell(f"PATH=${{PATH#{hardening.SHIMS}:}}; {command}", **args)
        if not result.success:
            said = result.error.message if result.error else result.stderr.strip()
            raise NotCarriedOut(f"`{command:.60}` failed inside: {said:.200}")
        return result.stdout

    async def program(
        self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any
    ) -> ToolResult:
        """Run a hostile program inside, whatever becomes of it."""
        timeout_s = self.paced(timeout_s)
        text = program(source, {"numbers": dict(numbers(platform.machine())), **given})
        if not tty:
            return await self.shell("exec python3 -I -", timeout_s=timeout_s, stdin=text)
        # On a terminal only a key ends the input, and it would echo the program back.
        await self.call("write", path=".hostile.py", content=text)
        return await self.shell("exec python3 -I .hostile.py", timeout_s=timeout_s, tty=True)

    async def python(self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any) -> Report:
        """Run a hostile program that must live to report."""
        return read_report(await self.program(source, timeout_s=timeout_s, tty=tty, **given))

    async def attack(self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any) -> Outcome:
        """Run a hostile program; the claim holds if it gained nothing."""
        report = await self.python(source, timeout_s=timeout_s, tty=tty, **given)
        return Outcome(held=report.got is None, tried=report.tried, came_back=report.got or report.refused)

    async def start(self, command: str) -> str:
        """Start a background process that an attack needs, and return its id."""
        started = await self.call("exec", command=command, background=True)
        if not started.success or started.data is None:
            raise NotCarriedOut(f"`{command:.60}` did not start inside: {started.error}")
        return str(started.data["process"])

    async def line_from(self, process: str) -> str:
        """Wait for the first line that a background process prints."""
        said = ""
        deadline = time.monotonic() + self.paced(_LINE_S)
        while True:
            polled = await self.call("process", action="poll", id=process)
            said += polled.stdout
            if said.endswith("\n"):
                return said.strip()
            if not polled.data or not polled.data.get("running") or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LINE_POLL_S)
        raise NotCarriedOut(f"a background process printed nothing: {polled.stderr.strip()[-200:]}")

    async def end(self, process: str) -> None:
        """End a background process."""
        await self.call("process", action="kill", id=process)

    async def stop(self) -> None:
        """End the sandbox; the next call gets a fresh one over the same workspace."""
        if self._placed.scope_key is not None:
            await self.gateway.execution.fleet.stop((self._placed.where, self._placed.scope_key))

    async def discard(self) -> None:
        """End the sandbox and forget its layer, as a person does; nothing happens where there is none."""
        store = LayerStore(self.gateway.execution.around.state)
        layer = None if self._placed.scope_key is None else store.find(self._placed.scope_key)
        if layer is not None:
            await self.stop()
            store.forget(layer)

    async def replace_runner(self, script: str) -> None:
        """Put a program of the attacker's in the place of this session's runner."""
        await self.stop()
        spec, execution = self.spec, self.gateway.execution

        async def open_(wanted: Wanted) -> Live:
            opener = execution.opener
            return opener.attend(await opener.connect(wanted, Impostor(script, greeting(spec)), None))

        await execution.fleet.acquire(Wanted.of(spec, self.agent), open_)

    def listing(self, network: Network) -> Target:
        """Return a session of another gateway with these settings except for the network; the caller stops it."""
        # One agent has one network: what was decided for it stays.
        return self._beside("keyed" if network.inject else "listing", replace(self.agent.sandbox, network=network))

    def world(self, *names: str) -> World:
        """Return servers' names that lead to this machine, and an authority that vouches for them."""
        from crabpot.proof.verify.world import World  # noqa: PLC0415  slow to import

        return World(names)

    def at_home(self, name: str) -> Target:
        """Return a session of another gateway with these settings and a private home; the caller stops it."""
        return self._beside(f"at-{name}", replace(self.agent.sandbox, home=name))

    def handing_off(self) -> Target:
        """Return who hands commands to the host; the caller stops another.

        Programs that need a folder do not leave one under review, so there a session with the folder itself is tried.
        """
        if self.agent.sandbox.workspace != "review":
            return self
        return self._beside("direct", replace(self.agent.sandbox, workspace="rw"))

    def _beside(self, agent_id: str, sandbox: Sandbox) -> Target:
        agent = replace(self.agent, id=agent_id, sandbox=sandbox)
        settings = replace(self.gateway.settings, entries={**self.gateway.settings.entries, agent.id: agent})
        over = self.gateway
        beside = Gateway(settings=settings, execution=over.execution, elevated=over.elevated, audit=over.audit)
        return self.elsewhere(f"agent:{agent.id}:x", beside)

    def elsewhere(self, session: str, gateway: Gateway) -> Target:
        """Return another session to attack, at the pace of this machine."""
        made = Target(gateway, session, self.bait, other=self._other, guarded=self.guarded)
        made.pace = self.pace
        return made

    def with_servers(self, servers: Mapping[str, McpServer], deny: tuple[str, ...]) -> Gateway:
        """Return another gateway over the same sandboxes, whose agents have these servers."""
        from crabpot.proof.verify.serving import with_servers  # noqa: PLC0415  slow to import

        return with_servers(self, servers, deny)

    async def answers(self) -> bool:
        """Return whether the sandbox still answers calls."""
        result = await self.shell("echo alive", timeout_s=self.paced(10.0))
        return result.success and result.stdout == "alive\n"
