"""Run a call where it was placed: find or open its sandbox, send it over the wire, say what came back."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.backends.host.backend import open_on_host
from crabpot.decide.scope import Principal, Scope
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.model import Failure, Place, ToolResult
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.arguments import InvalidCall, split_input, time_limit
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.spares import Spares
from crabpot.sandboxes.streams import Streams
from crabpot.scheduling.fairness import Allowance, Line
from crabpot.spec import binds
from crabpot.spec.build import build
from crabpot.wire.upcalls import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.backends.base import Opened
    from crabpot.backends.registry import Registry
    from crabpot.decide.placement import Placement
    from crabpot.model import ToolCall
    from crabpot.sandboxes.fleet import Connected, Live
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.calls import Source
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply
    from crabpot.wire.upcalls import Answers

# What a shell gives for a command that a signal ended: SIGKILL, and SIGXFSZ.
_KILLED, _TOO_LARGE = 128 + 9, 128 + 25
# Tools whose result says what became of what their command asked of the gateway.
_TOLD = ("exec", "process")
# A gateway that lives for months meets more sessions than it need remember.
_REMEMBERED = 4096


_NO_STREAMS = Streams()
_REFUSED_S = 5.0

# Each call holds its arguments and its output, up to a few MiB, and somebody could make ten thousand of them.
_AT_ONCE = Allowance(scope=256, agent=512, agents=8192, own=0)


class _Asked(NamedTuple):
    """What a call is to be done with, checked: its arguments, its input, its time limit."""

    args: dict[str, Any]
    source: Source | None
    timeout_s: float


@dataclass(slots=True, kw_only=True)
class Execution:
    """The places where calls run."""

    around: Surroundings
    registry: Registry
    environ: Mapping[str, str]
    # Who answers the upcalls that the sandboxes of a scope begin.
    answering: Callable[[Scope], Answers] = lambda _scope: NO_ANSWERS
    fleet: Fleet = field(default_factory=Fleet)
    spares: Spares = field(init=False)
    _keeps_spares: bool = False
    _underway: Line[ToolCall] = field(default_factory=lambda: Line(_AT_ONCE))
    _specs: dict[tuple[str, str], tuple[SandboxSpec, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spares = Spares(state=self.around.state, start=self._start)

    async def _start(self, spec: SandboxSpec) -> Connected:
        return await self.fleet.connect(await self.registry.open(spec))

    def warm_up(self, settings: Settings) -> None:
        """Begin to keep sandboxes ready for the agents that want some; a gateway for one call never does."""
        self._keeps_spares = True
        agents = [settings.agent(settings.default_agent), *settings.entries.values()]
        wanting = [agent for agent in agents if agent.sandbox.warm > 0 and agent.sandbox.mode != "off"]
        if wanting:
            self.spares.sweep()
        for agent in wanting:
            spec, _ = self.describe(agent, f"agent:{agent.id}")
            self.spares.keep(spec, agent.id, agent.sandbox.warm)

    async def run(self, call: ToolCall, agent: AgentSettings, placed: Placement, streams: Streams | None) -> ToolResult:
        """Run one call to its end."""
        try:
            asked = _Asked(*split_input(call), time_limit(call.args, agent))
        except InvalidCall as error:
            return call.failed("invalid_arguments", str(error))
        whose = Principal(agent.id, placed.scope_key or call.session)
        taken = self._underway.full(whose)
        if taken is not None:
            # Not at once: who asks again as soon as it is refused would keep the gateway busy with refusals.
            await asyncio.sleep(_REFUSED_S)
            message = f"{taken} has as many calls under way as it may have; wait until one of them has ended"
            return call.failed("process_limit", message)
        self._underway.enter(whose)
        try:
            return await self._run(call, agent, placed, streams or _NO_STREAMS, asked)
        finally:
            self._underway.leave(whose)

    async def _run(
        self, call: ToolCall, agent: AgentSettings, placed: Placement, given: Streams, asked: _Asked
    ) -> ToolResult:
        live = await self.acquire(agent, placed, call)
        live.left_running = live.left_running or bool(asked.args.get("background"))
        underway = None if live.scope is None else live.scope.begin(call.session)
        try:
            reply = await live.wire.call(
                call.tool,
                asked.args,
                timeout_s=asked.timeout_s,
                source=given.source or asked.source,
                sink=given.sink,
                resizes=given.resizes,
            )
        except SandboxLost as error:
            # Asked first: what ends it may take the answer away.
            cause = await live.opened.cause_of_death()
            self.fleet.forget(live)
            code, message = cause or ("sandbox_lost", f"the sandbox was lost: {error}")
            return call.failed(code, message, placed.where)
        finally:
            live.used = time.time()
            if live.scope is not None and underway is not None:
                live.scope.end(underway)
        result = await _result(call, reply, live, streamed=given.sink is not None)
        if underway is None or not underway.hints or call.tool not in _TOLD:
            return result
        return await _with_hints(result, underway.hints, given.sink)

    async def acquire(self, agent: AgentSettings, placed: Placement, call: ToolCall | None = None) -> Live:
        """Find the live place of a session, or open it while the call that needs it waits."""
        opener: Callable[[], Awaitable[Opened | Connected]]
        writes: tuple[str, ...] = ()
        if placed.scope_key is None:
            key, version = (Place.HOST, agent.id), binds.expand(agent.workspace, self.around.home)
            opener = partial(open_on_host, version, agent.sandbox.limits, self.environ)
        else:
            spec, version = self.describe(agent, placed.scope_key)
            key, opener = (Place.SANDBOX, placed.scope_key), partial(self._open, spec, agent)
            writes = spec.writes
        live = self.fleet.find(key, version)
        if live is None:
            with nullcontext() if call is None else call.stage("open"):
                live = await self.fleet.acquire(
                    key, version, opener, agent.sandbox.prune, writes=writes, agent=agent.id
                )
        if live.scope is None and placed.scope_key is not None:
            live.scope = Scope(key=placed.scope_key, agent=agent)
            live.wire.upcalls.answers = self.answering(live.scope)
        return live

    async def _open(self, spec: SandboxSpec, agent: AgentSettings) -> Opened | Connected:
        try:
            claimed = self._claim(spec, agent) if self._keeps_spares and agent.sandbox.warm else None
            if claimed is not None:
                return claimed
            if not spec.private:
                return await self.registry.open(spec)
            held = await private_folders.hold(self.around.state, spec, agent.id)
            try:
                connected = await self._start(spec)
            except BaseException:
                held.abandon()
                raise
            return _holding(connected, held)
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox cannot be made: {error}") from None

    def _claim(self, spec: SandboxSpec, agent: AgentSettings) -> Connected | None:
        claimed = self.spares.claim(spec, agent.id, agent.sandbox.warm)
        if claimed is None:
            return None
        connected, held = claimed
        return connected if held is None else _holding(connected, held)

    def describe(self, agent: AgentSettings, scope_key: str) -> tuple[SandboxSpec, str]:
        """Give the spec of a scope, and its hash; settings are frozen, so one look suffices."""
        known = self._specs.get((agent.id, scope_key))
        if known is None:
            try:
                spec = build(agent, scope_key, self.around)
            except ValueError as error:
                raise SandboxUnavailable(f"the sandbox cannot be made as configured: {error}") from None
            if len(self._specs) >= _REMEMBERED:
                self._specs.clear()
            known = self._specs[agent.id, scope_key] = (spec, spec.hash)
        return known

    async def reap(self, now: float) -> None:
        """End the places that were idle, or are old, beyond what their agent's settings keep."""
        await self.fleet.reap(
            lambda live: private_folders.is_stale(live.prune, used=live.used, made=live.started, now=now)
        )

    async def close(self) -> None:
        """End every place."""
        await self.spares.close()
        await self.fleet.close()


class Held:
    """A sandbox whose private folder is kept from pruning until it ends."""

    def __init__(self, opened: Opened, held: private_folders.Hold) -> None:
        self.channel, self.hello, self.pid = opened.channel, opened.hello, opened.pid
        self.cause_of_death, self.freeze, self.thaw = opened.cause_of_death, opened.freeze, opened.thaw
        self._opened, self._held = opened, held

    async def close(self) -> None:
        """End the sandbox, then let go of its folder."""
        try:
            await self._opened.close()
        finally:
            self._held.release()


def _holding(connected: Connected, held: private_folders.Hold) -> Connected:
    return replace(connected, opened=Held(connected.opened, held))


async def _result(call: ToolCall, reply: Reply, live: Live, *, streamed: bool) -> ToolResult:
    error = reply.error
    if error is None and not reply.success and reply.exit_code is not None:
        error = await _limit_behind(reply.exit_code, live)
    if call.tool == "read" and reply.data is not None and not streamed:
        # The content came beside the frame; that of an empty file did not come at all.
        reply.data.setdefault("content", "")
    return ToolResult(
        id=call.id,
        success=reply.success and error is None,
        stdout=reply.stdout,
        stderr=reply.stderr,
        exit_code=reply.exit_code,
        error=None if error is None else Failure(code=error[0], message=error[1]),
        truncated=reply.truncated,
        data=reply.data,
        place=live.key[0],
        duration_ms=call.took_ms(),
    )


async def _with_hints(result: ToolResult, hints: list[str], sink: Sink | None) -> ToolResult:
    """Say behind the command's own errors what was refused to it, where they are read."""
    text = "".join(f"crabpot: {hint}\n" for hint in hints)
    if sink is not None:
        await sink("stderr", text.encode())
        return result
    gap = "" if not result.stderr or result.stderr.endswith("\n") else "\n"
    return replace(result, stderr=f"{result.stderr}{gap}{text}")


async def _limit_behind(exit_code: int, live: Live) -> tuple[str, str] | None:
    """Name the limit that killed a command, where the kernel told; the exit code stays as it was."""
    largest = live.opened.hello["limits"]["file_size"]
    if exit_code == _TOO_LARGE and largest is not None:
        return "disk_limit", f"a file would have grown beyond {largest} bytes (limits.fileSize)"
    cause = await live.opened.cause_of_death()
    if cause is None or (cause[0] == "memory_limit" and exit_code != _KILLED):
        return None
    return cause
