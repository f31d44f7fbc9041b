"""Start one server for a scope key: in a sandbox of its own, or over the gateway's egress where it is remote."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_types import ListPromptsRequest, ListPromptsResult

from crabpot.decide.placement import Placement
from crabpot.decide.scope import Scope
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.sandboxes.streams import Streams
from crabpot.servers import trees
from crabpot.servers.connection import Connection
from crabpot.servers.inside import Inside
from crabpot.servers.launch import launch, reached
from crabpot.servers.messages import longest
from crabpot.servers.naming import PROMPTS
from crabpot.servers.questions import Questions
from crabpot.servers.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from crabpot.decide.scope import Underway
    from crabpot.egress.approval import Asker
    from crabpot.egress.authority import Authority
    from crabpot.egress.reaching import Egress
    from crabpot.sandboxes.execution import Execution
    from crabpot.sandboxes.live import Live
    from crabpot.servers.connection import Transport
    from crabpot.servers.pins import Described, Pins
    from crabpot.servers.sealing import Lock
    from crabpot.settings import AgentSettings, Limits, Settings


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A server of one scope key: its connection, whom it acts for, and its sandbox if it has one."""

    name: str
    connection: Connection
    scope: Scope
    live: Live | None = None
    tools: Mapping[str, Described] = field(default_factory=dict)
    # Who calls it now, and how often it asked them or a person something.
    callers: list[Streams] = field(default_factory=list)
    asked: int = 0
    # How often it announced other resources, and how often its words were compared since its last call.
    announced: int = 0
    looks: int = 0
    comparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = field(default_factory=time.time)

    @property
    def limits(self) -> Limits:
        """The limits under which it acts."""
        return self.scope.agent.sandbox.limits

    @property
    def lost(self) -> bool:
        """Whether no call can reach it any more."""
        return self.connection.ended is not None or (self.live is not None and self.live.lost)

    @contextmanager
    def used_by(self, session: str, streams: Streams | None) -> Iterator[Underway]:
        """Count a call as one in progress, so that its sandbox is not idle and its refusals are told to it."""
        underway, caller = self.scope.begin(session), streams or Streams()
        self.callers.append(caller)
        self.asked = 0 if len(self.callers) == 1 else self.asked
        self.looks = 0
        self._stand(0)
        try:
            yield underway
        finally:
            self.callers.remove(caller)
            self._stand(0 if self.connection.busy else 1)
            self.scope.end(underway)

    def _stand(self, count: int) -> None:
        self.used = time.time()
        if self.live is not None:
            self.live.used, self.live.standing = self.used, count

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
    desk: Asker
    record: Callable[[dict[str, Any]], object]
    pins: Pins

    async def start(self, name: str, agent: AgentSettings, key: str, lock: Lock | None = None) -> Running:
        """Start a server and ask for its tools; what was begun is ended if that fails.

        `lock` is what its package was just sealed to; else it is what was approved.
        """
        if self.settings.mcp.servers[name].url is not None:
            running = await self._remote(name, agent, key)
        else:
            running = await self._inside(name, agent, key, lock or await self._approved(name))
        try:
            await running.connection.start()
            running.tools = await self.words(running)
        except BaseException:
            await self.end(running, "it did not start")
            raise
        running.rest()
        return running

    async def words(self, running: Running) -> dict[str, Described]:
        """Ask a server for all that a client would be shown of it: its tools, and its prompts if they are passed on."""
        # Before it is asked: what it announces meanwhile is news again.
        running.connection.stale = False
        try:
            found = await running.connection.tools() if "tools" in running.connection.offers else {}
            if self.settings.mcp.servers[running.name].prompts and "prompts" in running.connection.offers:
                listed = await running.connection.listed(ListPromptsRequest, ListPromptsResult, "prompts")
                found |= {f"{PROMPTS}{one['name']}": one for one in listed}
        except BaseException:
            # What it announced, nobody has seen yet.
            running.connection.stale = True
            raise
        return found

    def _questions(self, name: str) -> Questions:
        sampling = self.settings.mcp.servers[name].sampling
        return Questions(desk=self.desk, record=self.record, sampling=sampling, source=self._source(name))

    def _source(self, name: str) -> str:
        return self.settings.mcp_sources.get(name, f"mcp.servers.{name}")

    def _running(self, name: str, transport: Transport, scope: Scope, live: Live | None = None) -> Running:
        questions = self._questions(name)
        start_s = scope.agent.sandbox.limits.time_limit
        connection = Connection(name, transport, start_s=start_s, asked=questions)
        questions.running = Running(name=name, connection=connection, scope=scope, live=live)
        return questions.running

    async def _approved(self, name: str) -> Lock | None:
        """Return what a server's package was approved as, once its files were seen to be those; CrabpotError if not."""
        pin = self.pins.find(name)
        if pin is None or pin.lock is None:
            return None
        try:
            found = await asyncio.to_thread(trees.digest, trees.folder(self.execution.around.state, pin.lock["tree"]))
        except (OSError, CrabpotError) as error:
            found = str(error)
        if found != pin.lock["tree"]:
            why = f"the files of the server {name} are not those that were approved"
            raise CrabpotError(f"{why}; run `crabpot servers approve {name}`")
        return pin.lock

    async def _inside(self, name: str, agent: AgentSettings, key: str, lock: Lock | None) -> Running:
        made = launch(name, self.settings, agent, self.execution.around, self.environ, lock=lock)
        self.execution.forget(made.agent, key)
        live = await self.execution.acquire(made.agent, Placement(where=Place.SANDBOX, scope_key=key))
        scope = live.scope or Scope(key=key, agent=made.agent)
        return self._running(name, Inside.of(live, made.argv), scope, live)

    async def _remote(self, name: str, agent: AgentSettings, key: str) -> Running:
        made = reached(name, self.settings, agent, self.execution.around, self.environ)
        scope, most = Scope(key=key, agent=made), longest(made.sandbox.limits.output)
        url = self.settings.mcp.servers[name].url or ""
        remote = Remote(url=url, egress=self.egress(scope, None), source=self._source(name), longest=most)
        return self._running(name, remote, scope)

    async def end(self, running: Running, why: str) -> None:
        """End a server, and its sandbox with everything in it."""
        await running.connection.end(why)
        if running.live is not None:
            await self.execution.fleet.stop(running.live.key)
