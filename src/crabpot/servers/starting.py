"""Start one server for a scope key: in a sandbox of its own, or over the gateway's egress where it is remote."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.decide.placement import Placement
from crabpot.decide.scope import Scope
from crabpot.model import Place
from crabpot.servers.connection import Connection
from crabpot.servers.inside import Inside
from crabpot.servers.launch import launch, reached
from crabpot.servers.messages import longest
from crabpot.servers.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from crabpot.decide.scope import Underway
    from crabpot.egress.authority import Authority
    from crabpot.egress.reaching import Egress
    from crabpot.sandboxes.execution import Execution
    from crabpot.sandboxes.live import Live
    from crabpot.servers.pins import Described
    from crabpot.settings import AgentSettings, Limits, Settings


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A server of one scope key: its connection, whom it acts for, and its sandbox if it has one."""

    name: str
    connection: Connection
    scope: Scope
    live: Live | None = None
    tools: Mapping[str, Described] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """The limits under which it acts."""
        return self.scope.agent.sandbox.limits

    @property
    def lost(self) -> bool:
        """Whether no call can reach it any more."""
        return self.connection.ended is not None or (self.live is not None and self.live.lost)

    @contextmanager
    def used_by(self, session: str) -> Iterator[Underway]:
        """Count a call as one in progress, so that its sandbox is not idle and its refusals are told to it."""
        underway = self.scope.begin(session)
        self._stand(0)
        try:
            yield underway
        finally:
            self._stand(0 if self.connection.busy else 1)
            self.scope.end(underway)

    def _stand(self, count: int) -> None:
        if self.live is not None:
            self.live.used, self.live.standing = time.time(), count

    def rest(self) -> None:
        """Count it as kept ready for whoever calls next."""
        self._stand(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """What starts the servers of one gateway."""

    settings: Settings
    execution: Execution
    environ: Mapping[str, str]
    egress: Callable[[Scope, Authority | None], Egress]

    async def start(self, name: str, agent: AgentSettings, key: str) -> Running:
        """Start a server and ask for its tools; what was begun is ended if that fails."""
        server = self.settings.mcp.servers[name]
        make = self._inside if server.url is None else self._remote
        running = await make(name, agent, key)
        try:
            await running.connection.start()
            running.tools = await running.connection.tools()
        except BaseException:
            await self.end(running, "it did not start")
            raise
        running.rest()
        return running

    async def _inside(self, name: str, agent: AgentSettings, key: str) -> Running:
        made = launch(name, self.settings, agent, self.execution.around, self.environ)
        live = await self.execution.acquire(made.agent, Placement(where=Place.SANDBOX, scope_key=key))
        connection = Connection(name, Inside.of(live, made.argv), start_s=made.agent.sandbox.limits.time_limit)
        scope = live.scope or Scope(key=key, agent=made.agent)
        return Running(name=name, connection=connection, scope=scope, live=live)

    async def _remote(self, name: str, agent: AgentSettings, key: str) -> Running:
        made = reached(name, self.settings, agent, self.execution.around, self.environ)
        scope, limits = Scope(key=key, agent=made), made.sandbox.limits
        url = self.settings.mcp.servers[name].url or ""
        transport = Remote(url=url, egress=self.egress(scope, None), longest=longest(limits.output))
        return Running(name=name, connection=Connection(name, transport, start_s=limits.time_limit), scope=scope)

    async def end(self, running: Running, why: str) -> None:
        """End a server, and its sandbox with everything in it."""
        await running.connection.end(why)
        if running.live is not None:
            await self.execution.fleet.stop(running.live.key)
