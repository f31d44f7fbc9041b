"""Run a call where it was placed: find or open its sandbox, send it over the wire, say what came back."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from crabpot import keeping
from crabpot.backends.host.backend import open_on_host
from crabpot.errors import SandboxLost
from crabpot.fleet import Fleet
from crabpot.model import Failure, Place, ToolResult
from crabpot.spec import binds
from crabpot.spec.build import build

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from crabpot.backends.base import Opened
    from crabpot.backends.registry import Registry
    from crabpot.backends.reply import Reply
    from crabpot.backends.wire import Sink
    from crabpot.fleet import Key, Live
    from crabpot.model import ToolCall
    from crabpot.placement.rules import Placement
    from crabpot.settings import AgentSettings, Limits
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec

# Larger texts travel beside the frame, not in it.
_INLINE = 64 * 1024
_KILLED = 128 + 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What a door connects to a call: its input, who takes its output, and the sizes of its terminal."""

    source: AsyncIterator[bytes] | None = None
    sink: Sink | None = None
    resizes: asyncio.Queue[tuple[int, int]] | None = None


class InvalidCall(ValueError):
    """Arguments that are refused before anything runs."""


@dataclass(slots=True, kw_only=True)
class Execution:
    """The places where calls run."""

    around: Surroundings
    registry: Registry
    environ: Mapping[str, str]
    fleet: Fleet = field(default_factory=Fleet)
    _specs: dict[tuple[str, str], tuple[SandboxSpec, str]] = field(default_factory=dict)
    _owners: dict[Key, AgentSettings] = field(default_factory=dict)

    async def run(self, call: ToolCall, agent: AgentSettings, placed: Placement, streams: Streams | None) -> ToolResult:
        """Run one call to its end."""
        try:
            timeout_s = time_limit(call.args, agent)
            args, source = split_input(call)
        except InvalidCall as error:
            return ToolResult(id=call.id, success=False, error=Failure(code="invalid_arguments", message=str(error)))
        live = await self.acquire(agent, placed)
        streams = streams or Streams()
        try:
            reply = await live.wire.call(
                call.tool,
                args,
                timeout_s=timeout_s,
                source=streams.source or source,
                sink=streams.sink,
                resizes=streams.resizes,
            )
        except SandboxLost:
            cause = live.opened.cause_of_death()
            await self.fleet.stop(live.key)
            if cause is None:
                raise
            return ToolResult(id=call.id, success=False, error=Failure(code=cause[0], message=cause[1]))
        return _result(call, reply, live, placed.where)

    async def acquire(self, agent: AgentSettings, placed: Placement) -> Live:
        """Find the live place of a session, or open it."""
        opener: Callable[[], Awaitable[Opened]]
        if placed.scope_key is None:
            key, version = (Place.HOST, agent.id), os.path.realpath(binds.expand(agent.workspace, self.around.home))
            opener = partial(open_on_host, version, agent.sandbox.limits, self.environ)
        else:
            spec, version = self.describe(agent, placed.scope_key)
            key, opener = (Place.SANDBOX, placed.scope_key), partial(self._open, spec, agent)
        live = self.fleet.find(key, version)
        if live is None:
            self._owners[key] = agent
            live = await self.fleet.acquire(key, version, opener)
        return live

    async def _open(self, spec: SandboxSpec, agent: AgentSettings) -> Opened:
        if not spec.private:
            return await self.registry.open(spec)
        held = keeping.hold(self.around.state, spec, agent.id)
        try:
            return Held(await self.registry.open(spec), held)
        except BaseException:
            held.release()
            raise

    def describe(self, agent: AgentSettings, scope_key: str) -> tuple[SandboxSpec, str]:
        """Give the spec of a scope, and its hash; settings are frozen, so one look suffices."""
        known = self._specs.get((agent.id, scope_key))
        if known is None:
            spec = build(agent, scope_key, self.around)
            known = self._specs[agent.id, scope_key] = (spec, spec.hash)
        return known

    async def reap(self, now: float) -> None:
        """End the places that were idle, or are old, beyond what their agent's settings keep."""

        def stale(live: Live) -> bool:
            prune = self._owners[live.key].sandbox.prune
            return now - live.used > prune.idle_hours * 3600 or now - live.started > prune.max_age_days * 86400

        await self.fleet.reap(stale)

    async def close(self) -> None:
        """End every place."""
        await self.fleet.close()


class Held:
    """A sandbox whose private folder is kept from pruning until it ends."""

    def __init__(self, opened: Opened, held: keeping.Hold) -> None:
        self.channel, self.hello = opened.channel, opened.hello
        self.cause_of_death = opened.cause_of_death
        self._opened, self._held = opened, held

    async def close(self) -> None:
        """End the sandbox, then let go of its folder."""
        await self._opened.close()
        self._held.release()


def time_limit(args: Mapping[str, Any], agent: AgentSettings) -> float:
    """Give a call's time limit: its own up to the ceiling, else the agent's."""
    limits: Limits = agent.sandbox.limits
    asked = args.get("timeout")
    if asked is None:
        return limits.time_limit
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        raise InvalidCall("timeout must be a number of seconds above 0")
    if asked > limits.time_ceiling:
        where = agent.source("sandbox.limits.timeCeiling")
        raise InvalidCall(f"timeout {asked:g} is above timeCeiling, {limits.time_ceiling:g} s ({where})")
    return float(asked)


def split_input(call: ToolCall) -> tuple[dict[str, Any], AsyncIterator[bytes] | None]:
    """Take a large content or input out of the arguments: it travels as raw bytes beside the frame."""
    rest = dict(call.args)
    name = {"write": "content", "exec": "stdin"}.get(call.tool)
    text = rest.get(name) if name else None
    if name is None or not isinstance(text, str) or len(text) <= _INLINE:
        return rest, None
    del rest[name]
    return rest, _pieces(_decoded(text, rest.pop("encoding", None)))


def _decoded(text: str, encoding: Any) -> bytes:
    if encoding not in (None, "utf-8", "base64"):
        raise InvalidCall('encoding must be "utf-8" or "base64"')
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode("utf-8")
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise InvalidCall(f"the content is not valid {encoding or 'UTF-8'}") from None


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _result(call: ToolCall, reply: Reply, live: Live, place: Place) -> ToolResult:
    error = reply.error
    if error is None and not reply.success and reply.exit_code is not None:
        error = _limit_behind(reply.exit_code, live)
    return ToolResult(
        id=call.id,
        success=reply.success and error is None,
        stdout=reply.stdout,
        stderr=reply.stderr,
        exit_code=reply.exit_code,
        error=None if error is None else Failure(code=error[0], message=error[1]),
        truncated=reply.truncated,
        data=reply.data,
        place=place,
    )


def _limit_behind(exit_code: int, live: Live) -> tuple[str, str] | None:
    """Name the limit that killed a command, where the kernel counted it; the exit code stays as it was."""
    cause = live.opened.cause_of_death()
    if cause is None or (cause[0] == "memory_limit" and exit_code != _KILLED):
        return None
    return cause
