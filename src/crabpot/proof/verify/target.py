"""What is attacked: one session of a gateway, and a second one beside it for claims about neighbours."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.approvals.desk import Desk
from crabpot.approvals.requests import Answer
from crabpot.backends import runner_source
from crabpot.backends.base import greeting
from crabpot.config.load import from_text
from crabpot.config.places import find_config
from crabpot.decide.elevation import ElevationRule, rules
from crabpot.decide.patterns import matches
from crabpot.gateway import Gateway
from crabpot.host_commands.host import Host
from crabpot.host_commands.plan import check
from crabpot.layers.changes.applying import apply
from crabpot.layers.store import LayerStore
from crabpot.proof.verify.claims import NotCarriedOut
from crabpot.proof.verify.impostor import Impostor
from crabpot.proof.verify.session_calls import SessionCalls
from crabpot.sandboxes.live import Wanted
from crabpot.spec import hardening
from crabpot.spec.network import proxy_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.approvals.requests import Request
    from crabpot.host_commands.plan import Plan
    from crabpot.layers.layer import Layer
    from crabpot.model import ToolResult
    from crabpot.proof.verify.bait import Bait
    from crabpot.proof.verify.claims import Claim
    from crabpot.proof.verify.world import World
    from crabpot.sandboxes.live import Live
    from crabpot.settings import McpServer, Network, Sandbox, Settings
    from crabpot.spec.spec import SandboxSpec


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


class Target(SessionCalls):
    """A session, attacked only in the ways that its agent has: tool calls through the gateway."""

    def __init__(
        self, gateway: Gateway, session: str, bait: Bait, *, other: Target | None = None, guarded: tuple[str, ...] = ()
    ) -> None:
        super().__init__(gateway, session)
        self.bait = bait
        self.guarded = guarded
        self._other = other

    async def measure(self) -> None:
        """Find out how slow this machine is, for the neighbour too."""
        await super().measure()
        if self._other is not None:
            self._other.pace = self.pace

    @property
    def other(self) -> Target:
        """Return the neighbour: a session of the same gateway with a sandbox of its own."""
        if self._other is None:
            raise NotCarriedOut("this claim needs a second sandbox, and there is none")
        return self._other

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

    async def leave(self, command: str, *, answer: Answer | None = None) -> ToolResult:
        """Ask for a host command, where a pattern matches it and an operator agrees, or gives this answer."""
        agreeing = Agreeing(answer or Answer(allowed=True, by="crabpot verify"))
        detach = self.gateway.desk.attach(agreeing, scope_key=self.spec.scope_key)
        try:
            return await self.shell(command)
        finally:
            detach()

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
