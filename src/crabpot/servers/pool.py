"""The servers that run, one for each scope key: started on demand, kept, started again, and ended when idle."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crabpot.audit.records import of_server
from crabpot.decide.servers import acting
from crabpot.errors import CrabpotError, SandboxUnavailable
from crabpot.servers import offers, passing, suspicions
from crabpot.servers.announcements import Announcements
from crabpot.servers.backoff import Backoff
from crabpot.servers.connection import ServerFailed, ServerRefused, ServerTimeout
from crabpot.servers.naming import PROMPTS
from crabpot.servers.offers import Offer, Offers
from crabpot.servers.passing import BadArguments, Passed
from crabpot.servers.pins import Pins
from crabpot.servers.results import as_data, as_result
from crabpot.servers.starting import Starter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from crabpot.decide.placement import Placement
    from crabpot.decide.scope import Scope
    from crabpot.egress.approval import Asker
    from crabpot.egress.authority import Authority
    from crabpot.egress.reaching import Egress
    from crabpot.model import Place, ToolCall, ToolResult
    from crabpot.sandboxes.execution import Execution
    from crabpot.sandboxes.streams import Streams
    from crabpot.servers.starting import Running
    from crabpot.settings import AgentSettings, Settings


@dataclass(slots=True, kw_only=True)
class Servers:
    """The configured servers of one gateway."""

    settings: Settings
    execution: Execution
    environ: Mapping[str, str]
    record: Callable[[dict[str, Any]], object]
    egress: Callable[[Scope, Authority | None], Egress]
    desk: Asker
    pins: Pins = field(init=False)
    starter: Starter = field(init=False)
    announcements: Announcements = field(init=False)
    _running: dict[str, Running] = field(default_factory=dict)
    _starting: dict[str, asyncio.Task[Running]] = field(default_factory=dict)
    _backoffs: dict[str, Backoff] = field(default_factory=dict)
    _adopted: int = 0
    _offers: dict[str, tuple[Settings, tuple[object, ...], Offers]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.announcements = Announcements(self._compare)
        self.pins = Pins(self.execution.around.state)
        self.starter = Starter(
            settings=self.settings,
            execution=self.execution,
            environ=self.environ,
            egress=self.egress,
            desk=self.desk,
            record=self.record,
            pins=self.pins,
        )

    def offered(self, may: Callable[[str], bool]) -> list[dict[str, Any]]:
        """Describe the tools of all servers that are approved, and that `may` allows by their name."""
        found = map(self._offers_of, self.settings.mcp.servers)
        return [one.as_json() for each in found for name, one in each.offered.items() if may(name)]

    def passes(self, may: Callable[[str], bool]) -> list[str]:
        """List the calls by which something else than tools is passed on, of those that `may` allows."""
        servers = self.settings.mcp.servers.items()
        names = [f"{name}__{method}" for name, server in servers for method in passing.methods(server)]
        return [name for name in names if may(name)]

    def stamps(self, keys: Iterable[str | None]) -> dict[str, str]:
        """Return a text for each list that a client may keep, which is another one once the list may be.

        `keys` are the scope keys of the servers whose resources the client is shown.
        """
        words = f"{self._adopted} {self.pins.stamp()}"
        announced = sum(self._running[key].announced for key in set(keys) if key in self._running)
        return {"tools": words, "prompts": words, "resources": f"{words} {announced}"}

    async def run(
        self, name: str, call: ToolCall, agent: AgentSettings, placed: Placement, streams: Streams | None
    ) -> ToolResult:
        """Call a tool of a server, which is started where none runs for the scope key."""
        offer = self._offer(name, call)
        if isinstance(offer, str):
            return call.failed("denied", f"{call.tool} is denied: {offer}")
        key = placed.scope_key or call.session
        try:
            running = await self._acquire(name, agent, key)
            if running.connection.stale or running.comparing.locked():
                await self._compare(running)
            # Starting it, or asking it again, may have shown that it is another tool by now.
            offer = self._offer(name, call)
            if isinstance(offer, str):
                return call.failed("denied", f"{call.tool} is denied: {offer}")
            return await self._call(running, call, offer, placed.where, streams)
        except ServerTimeout as error:
            return call.failed("timeout", str(error), placed.where)
        except BadArguments as error:
            return call.failed("invalid_arguments", f"{call.tool}: {error}", placed.where)
        except ServerRefused as error:
            return call.failed("internal", str(error), placed.where)
        except ServerFailed as error:
            return call.failed("sandbox_lost", str(error), placed.where)
        except CrabpotError as error:
            return call.failed("sandbox_unavailable", str(error))

    def _offers_of(self, name: str) -> Offers:
        """Return what a server offers; judged again only when its settings or what was approved are others."""
        version = self.pins.version(name)
        known = self._offers.get(name)
        if known is None or known[0] is not self.settings or known[1] != version:
            known = self._offers[name] = (self.settings, version, offers.of(name, self.settings, self.pins))
        return known[2]

    def _offer(self, name: str, call: ToolCall) -> Offer | Passed | str:
        found = self._offers_of(name)
        method = call.tool.removeprefix(f"{name}__")
        if method in passing.METHODS and found.because is None:
            if method in passing.methods(self.settings.mcp.servers[name]):
                return Passed(method=method, offers=found)
            what, source = method.partition("/")[0], self.settings.mcp_sources.get(name, f"mcp.servers.{name}")
            return f"the {what} of the server {name} are not passed on ({source}.{what} is false)"
        return found.offered.get(call.tool) or found.why_not(name, call.tool)

    async def _call(
        self, running: Running, call: ToolCall, offer: Offer | Passed, where: Place, streams: Streams | None
    ) -> ToolResult:
        limits = running.limits
        with running.used_by(call.session, streams) as underway:
            if isinstance(offer, Passed):
                result = as_data(call, await offer.answer(running, call.args), where, limits.output)
            else:
                answer = await running.connection.call(
                    offer.tool, call.args, timeout_s=limits.time_limit, progress=_progress(streams)
                )
                result = as_result(call, answer, where, limits.output)
        if underway.hints:
            result = replace(result, stderr="".join(f"crabpot: {hint}\n" for hint in underway.hints))
        said = result.stdout if isinstance(offer, Offer) else json.dumps(result.data, ensure_ascii=False)
        if found := suspicions.hidden(said):
            self.record(of_server(running.name, "hidden", tool=call.tool, characters=found, call=call.id))
        return result

    async def _acquire(self, name: str, agent: AgentSettings, key: str) -> Running:
        running = self._running.get(key)
        if running is not None and not running.lost:
            return running
        task = self._starting.get(key)
        if task is None:
            backoff = self._backoffs.setdefault(name, Backoff())
            if backoff.left_s > 0:
                again = f"it is started again in {backoff.left_s:.0f} s, or by `crabpot servers restart {name}`"
                raise SandboxUnavailable(f"{backoff.why}; {again}")
            task = self._starting[key] = asyncio.create_task(self._start(name, agent, key))
            task.add_done_callback(lambda _: self._starting.pop(key, None))
        # Not awaited itself: a caller that leaves must not take the server from others who wait for it.
        await asyncio.wait([task])
        return task.result()

    async def _start(self, name: str, agent: AgentSettings, key: str) -> Running:
        before = self._running.pop(key, None)
        if before is not None:
            await self.starter.end(before, "it is started again")
        try:
            if self.settings.mcp.servers[name].url is not None:
                await self._make_room(agent)
            running = await self.starter.start(name, agent, key)
            self._running[key] = running
            await self._compare(running)
            self.announcements.follow(running)
        except (ServerFailed, ServerRefused, ServerTimeout, CrabpotError) as error:
            self._backoffs.setdefault(name, Backoff()).failed(str(error))
            self.record(of_server(name, "failed", because=str(error)))
            raise
        self._backoffs.pop(name, None)
        self.record(of_server(name, "started", scope=key))
        return running

    async def _compare(self, running: Running) -> None:
        """Withhold what is not as it was approved, in every gateway, and say so."""
        async with running.comparing:
            if running.connection.stale:
                running.tools = await self.starter.words(running)
        pin = self.pins.find(running.name)
        if pin is None:
            return
        news = pin.changed(running.tools)
        if not self.settings.mcp.servers[running.name].prompts:
            # Not asked for, and so not gone.
            news = {word: how for word, how in news.items() if not word.startswith(PROMPTS)}
        changed = {**self.pins.withheld(running.name), **news}
        if changed != self.pins.withheld(running.name):
            self.pins.withhold(running.name, changed)
            self.record(of_server(running.name, "withheld", tools=changed))

    async def reap(self, now: float) -> None:
        """Forget those whose sandbox has ended, and end remote ones that nobody called for long."""
        for key, one in list(self._running.items()):
            idle_s = now - one.used
            idle = one.live is None and not one.connection.busy
            if one.lost or (idle and idle_s > one.scope.agent.sandbox.prune.idle_hours * 3600):
                await self._forget(key, "it was idle")

    async def _make_room(self, agent: AgentSettings) -> None:
        """End the remote one that an agent used longest ago, if it has as many as it may have sandboxes."""
        own = {key: one for key, one in self._running.items() if one.live is None and one.scope.agent.id == agent.id}
        if len(own) < self.settings.gateway.max_sandboxes_per_agent:
            return
        idle = [key for key, one in own.items() if one.lost or not one.connection.busy]
        if not idle:
            limit = f"gateway.maxSandboxesPerAgent is {self.settings.gateway.max_sandboxes_per_agent}"
            raise SandboxUnavailable(f"the agent {agent.id} is connected to as many servers as it may be ({limit})")
        await self._forget(min(idle, key=lambda key: own[key].used), "another one is needed")

    async def _forget(self, key: str, why: str) -> None:
        if (one := self._running.pop(key, None)) is not None:
            await self.starter.end(one, why)

    async def restart(self, name: str) -> int:
        """End every running server of a name, and forget its failures; the next call starts it again."""
        self._backoffs.pop(name, None)
        keys = [key for key, one in self._running.items() if one.name == name]
        for key in keys:
            await self.starter.end(self._running.pop(key), "it is started again")
        return len(keys)

    async def adopt(self, settings: Settings) -> None:
        """Start what comes by other settings; servers that they change are ended, and started by their next call."""
        before, self.settings = self.settings, settings
        self._adopted += 1
        self.starter = replace(self.starter, settings=settings)
        changed = {one.name for one in self._running.values() if _of(one, before) != _of(one, settings)}
        for name in (*changed, *self._backoffs):
            await self.restart(name)

    async def close(self) -> None:
        """End every server; their sandboxes end with the fleet."""
        await self.announcements.close()
        for task in list(self._starting.values()):
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        for running in self._running.values():
            await running.connection.end("the gateway is closing")
        self._running.clear()


def _of(running: Running, settings: Settings) -> tuple[object, ...]:
    """Return all that a server which runs was made from."""
    server = settings.mcp.servers.get(running.name)
    return server, None if server is None else acting(running.name, settings, settings.agent(running.scope.agent.id))


def _progress(streams: Streams | None) -> Callable[..., Any] | None:
    """Pass a server's progress on to who reads the call's output while it runs."""
    if streams is None or streams.progress is not None:
        return None if streams is None else streams.progress
    sink = streams.sink
    if sink is None:
        return None

    async def told(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
        await sink("stderr", f"{share} {message or ''}".strip()[:500].encode() + b"\n")

    return told
