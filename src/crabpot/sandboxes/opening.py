"""Make a live sandbox: take a spare, or hold its folder, have a backend open it, and greet its runner."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.backends.host.backend import open_on_host
from crabpot.decide.scope import Scope
from crabpot.errors import LayerError, SandboxUnavailable
from crabpot.sandboxes import private_folders, trusted
from crabpot.sandboxes.folder_counts import FolderCounts
from crabpot.sandboxes.live import START_S, Live, Wanted, identity_of
from crabpot.sandboxes.spares import Spares
from crabpot.wire.calls import RunnerWire
from crabpot.wire.stream import GRACE_S
from crabpot.wire.upcalls import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.backends.base import Sandbox
    from crabpot.backends.registry import Registry
    from crabpot.egress.authority import Authority
    from crabpot.sandboxes.live import Hold
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.upcalls import Answers

    Connect = Callable[[Wanted, Sandbox, Hold | None], Awaitable[Live]]

_NO_LIMIT = 1 << 30


async def connect(
    wanted: Wanted,
    sandbox: Sandbox,
    held: Hold | None = None,
    *,
    start_s: float = START_S,
    grace_s: float = GRACE_S,
) -> Live:
    """Greet a sandbox's runner; one that does not answer is ended before the error is raised."""
    try:
        wire = await RunnerWire.connect(sandbox.channel, sandbox.hello, timeout_s=start_s, grace_s=grace_s)
    except BaseException:
        await sandbox.close()
        raise
    return Live(wanted=wanted, sandbox=sandbox, wire=wire, held=held)


@dataclass(slots=True, kw_only=True)
class Opener:
    """Opens what a call needs. Whatever fails leaves nothing behind."""

    state: str
    registry: Registry
    environ: Mapping[str, str]
    # Who answers the upcalls that the sandboxes of a scope begin.
    answering: Callable[[Scope, Authority | None], Answers] = lambda _scope, _authority: NO_ANSWERS
    connect: Connect = connect
    # How many private folders and layers an agent may have.
    most_folders: Callable[[], int] = lambda: _NO_LIMIT
    spares: Spares = field(init=False)
    folders: FolderCounts = field(init=False)

    def __post_init__(self) -> None:
        self.spares = Spares(state=self.state, start=self._start)
        self.folders = FolderCounts(self.state)

    def claim(self, wanted: Wanted) -> Live | None:
        """Return a spare as what is wanted; None if there is none, or more has to be opened with it."""
        spec, agent = wanted.spec, wanted.agent
        if spec is None or agent.sandbox.ports or not self.spares.begun:
            return None
        if spec.private and not self.folders.takes(agent.id, self.most_folders()):
            return None
        # The opening that follows reports it.
        with suppress(OSError):
            live = self.spares.claim(wanted)
            return None if live is None else self.attend(live)
        return None

    async def open(self, wanted: Wanted) -> Live:
        """Open what is wanted, or raise SandboxUnavailable."""
        spec, agent = wanted.spec, wanted.agent
        if spec is None:
            folder = identity_of(wanted.folder)
            runner = await open_on_host(wanted.version, agent.sandbox.limits, self.environ)
            placed = await self.connect(wanted, runner, None)
            placed.folder = folder
            return placed
        try:
            keeps = spec.private or spec.layer is not None
            if keeps and not self.folders.takes(agent.id, most := self.most_folders()):
                await self.folders.check(spec, agent.id, most)
            live = self.spares.claim(wanted)
            if live is None:
                self.spares.make_room(agent.id)
                live = await self._start(spec, agent, await self._hold(spec, agent))
        except (OSError, LayerError) as error:
            raise SandboxUnavailable(f"the sandbox cannot be made: {error}") from None
        if agent.sandbox.ports:
            from crabpot.sandboxes.ports import Ports  # noqa: PLC0415  few sandboxes have any

            live.ports = Ports(live.wire)
            await live.ports.open(agent.sandbox.ports)
        return self.attend(live)

    async def _hold(self, spec: SandboxSpec, agent: AgentSettings) -> Hold | None:
        if spec.layer is not None:
            from crabpot.layers.store import LayerStore  # noqa: PLC0415  most sandboxes have no layer
            from crabpot.sandboxes import under_review  # noqa: PLC0415

            return await under_review.hold(LayerStore(self.state), self.registry, spec, agent)
        return await private_folders.hold(self.state, spec, agent.id) if spec.private else None

    async def _start(self, spec: SandboxSpec, agent: AgentSettings, held: Hold | None) -> Live:
        wanted = Wanted.of(spec, agent)
        folder = identity_of(wanted.folder)
        try:
            with trusted.authority_for(spec, self.state) as (shown, authority):
                sandbox, clauses = await self.registry.open(shown)
            live = await self.connect(wanted, sandbox, held)
            live.authority, live.clauses, live.folder = authority, clauses, folder
            return live
        except BaseException:
            if held is not None:
                held.abandon()
            raise

    def attend(self, live: Live) -> Live:
        """Have the upcalls of a sandbox answered on behalf of its scope."""
        live.scope = Scope(key=live.wanted.key[1], agent=live.wanted.agent, clocks=live.wire)
        live.wire.upcalls.answers = self.answering(live.scope, live.authority)
        return live
