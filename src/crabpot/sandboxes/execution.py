"""Run a call where it was placed: find or open its sandbox, send it over the wire, return its result."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crabpot.decide.hints import near_miss
from crabpot.decide.scope import ACTING_FOR, CALLER, PRINCIPAL
from crabpot.errors import LayerBusy, SandboxLost, SandboxUnavailable
from crabpot.model import Place
from crabpot.sandboxes import private_folders, remarks
from crabpot.sandboxes.arguments import InvalidCall, split_input, time_limit
from crabpot.sandboxes.capacity import most_folders
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.live import Wanted
from crabpot.sandboxes.opening import Opener
from crabpot.sandboxes.streams import Streams
from crabpot.sandboxes.watching import Watch
from crabpot.scheduling.fairness import Allowance, Line
from crabpot.spec import binds
from crabpot.spec.described import Described, describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.registry import Registry
    from crabpot.decide.placement import Placement
    from crabpot.decide.scope import Underway
    from crabpot.model import ToolCall, ToolResult
    from crabpot.sandboxes.live import Live
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.calls import Source
    from crabpot.wire.in_flight import Sink

    # A call, checked: its arguments, its input and its time limit.
    Checked = tuple[dict[str, Any], Source | None, float]

# The exit codes of a shell whose command died by SIGKILL, and by SIGXFSZ.
_KILLED, _TOO_LARGE = 128 + 9, 128 + 25
# Tools whose results carry hints about what their command was refused.
_HINTED = ("exec", "process")
# A gateway that runs for months sees more sessions than it need remember.
_MOST_CACHED = 4096

_NO_STREAMS = Streams()
_REFUSED_S = 5.0

# Each call holds up to a few MiB of arguments and output, and a client could make ten thousand of them.
_AT_ONCE = Allowance(scope=256, agent=512, agents=8192, own=0)


@dataclass(slots=True, kw_only=True)
class Execution:
    """The places where calls run."""

    around: Surroundings
    registry: Registry
    environ: Mapping[str, str]
    fleet: Fleet = field(default_factory=Fleet)
    # Whether a configured agent that says nothing about spares has one, as under `serve`.
    spare_by_default: bool = False
    opener: Opener = field(init=False)
    _watch: Watch = field(init=False)
    _underway: Line[ToolCall] = field(default_factory=lambda: Line(_AT_ONCE))
    _wanted: dict[tuple[str, str | None], Wanted] = field(default_factory=dict)
    # The last spec of each agent: that of its next scope differs in little.
    _specs: dict[str, Described] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opener = Opener(state=self.around.state, registry=self.registry, environ=self.environ)
        self.opener.spares.room = self.fleet.room
        self.opener.most_folders = lambda: most_folders(self.fleet.limits)
        self._watch = Watch(self.fleet.give_up)

    def warm_up(self, settings: Settings) -> None:
        """Begin to keep spares for the agents whose settings ask for some; a gateway for one call never does."""
        agents = {agent.id: agent for agent in (settings.agent(settings.default_agent), *settings.entries.values())}
        kept = []
        for agent in (one for one in agents.values() if one.sandbox.mode != "off"):
            by_default = self.spare_by_default and _gets_a_spare(agent)
            # What is wrong with a sandbox that nobody has asked for yet is told when somebody does.
            with suppress(SandboxUnavailable) if by_default else nullcontext():
                if by_default or agent.sandbox.warm:
                    kept.append((self.describe(agent, f"agent:{agent.id}")[0], agent))
        self.opener.spares.begin(kept, by_default=self.spare_by_default)

    async def adopt(self, before: Settings, settings: Settings) -> None:
        """Run what comes by other settings. A live sandbox whose spec they change is replaced at its next call.

        Not if only the places that it may reach change: the gateway keeps those, not the sandbox.
        """
        self._wanted.clear()
        self._specs.clear()
        self.fleet.limits = settings.gateway
        self._take_over(before, settings)
        # What is being opened now is opened by the settings before.
        await self.fleet.opened()
        self._take_over(before, settings)

    def _take_over(self, before: Settings, settings: Settings) -> None:
        for live in self.fleet.listed():
            # A server's sandbox has settings of its own.
            if live.scope is None or live.wanted.agent != before.agent(live.agent):
                continue
            agent = settings.agent(live.agent)
            with suppress(SandboxUnavailable):
                wanted = self._want(agent, live.scope.key)
                if wanted.reaching_nothing == live.wanted.reaching_nothing:
                    live.wanted, live.scope.agent = wanted, agent

    async def run(self, call: ToolCall, agent: AgentSettings, placed: Placement, streams: Streams | None) -> ToolResult:
        """Run one call to its end."""
        try:
            asked = (*split_input(call), time_limit(call.args, agent))
        except InvalidCall as error:
            return call.failed("invalid_arguments", str(error))
        whose = ACTING_FOR.get()
        taken = self._underway.enter(whose)
        if taken is not None:
            # Not at once: a client that retries immediately would keep the gateway busy with refusals.
            await asyncio.sleep(_REFUSED_S)
            message = f"{taken} has as many calls under way as it may have; wait until one of them ends"
            return call.failed("process_limit", message)
        try:
            wanted = self._want(agent, placed.scope_key)
            live = self.fleet.find(wanted) or await self._open(wanted, call)
            return await self._run(call, agent, live, streams or _NO_STREAMS, asked)
        finally:
            self._underway.leave(whose)

    async def _run(
        self, call: ToolCall, agent: AgentSettings, live: Live, given: Streams, asked: Checked
    ) -> ToolResult:
        args, source, timeout_s = asked
        where = live.wanted.key[0]
        if given.remark is not None:
            for remark in remarks.of_limits(live.clauses):
                given.remark(remark)
        reviewed = live.reviewed
        if reviewed:
            await live.catch_up()
            self._watch.begun(live)
        if where is Place.HOST and call.tool == "exec" and (variables := CALLER.get()):
            # One runner serves all callers, and each command has the variables of its own.
            own = args.get("env")
            args["env"] = {**variables, **own} if isinstance(own, dict) else dict(variables)
        underway = _begin(call, agent, args, live)
        try:
            reply = await live.wire.call(
                call.tool,
                args,
                timeout_s=timeout_s,
                source=given.source or source,
                sink=given.sink,
                resizes=given.resizes,
                more=given.header,
                # A person who is asked may take longer than the limit, but not than any call may.
                spare_s=agent.sandbox.limits.time_ceiling - timeout_s,
            )
            if reviewed:
                await live.bring_back()
        except SandboxLost as error:
            # Asked first: ending it may take the answer away.
            cause = live.ended_by or await live.sandbox.cause_of_death()
            self.fleet.forget(live)
            code, message = cause or ("sandbox_lost", f"the sandbox was lost: {error}")
            return call.failed(code, message, where)
        finally:
            self._end(underway, live, reviewed=reviewed)
        if reply.error is None and not reply.success and reply.exit_code is not None:
            reply = reply._replace(error=await _limit_behind(reply.exit_code, live))
        if call.tool == "read" and reply.data is not None and given.sink is None:
            # The content came beside the frame; an empty file has none.
            reply.data.setdefault("content", "")
        result = reply.as_result(call.id, where, call.took_ms())
        if underway is None or not underway.hints or call.tool not in _HINTED:
            return result
        return await _with_hints(result, underway.hints, given.sink)

    def _end(self, underway: Underway | None, live: Live, *, reviewed: bool) -> None:
        live.used = live.rested = time.time()
        if reviewed:
            self._watch.ended(live)
        if live.scope is not None and underway is not None:
            live.scope.end(underway)

    async def acquire(self, agent: AgentSettings, placed: Placement, call: ToolCall | None = None) -> Live:
        """Find the live place of a session, or open it while the call that needs it waits."""
        wanted = self._want(agent, placed.scope_key)
        return self.fleet.find(wanted) or await self._open(wanted, call)

    async def _open(self, wanted: Wanted, call: ToolCall | None) -> Live:
        with nullcontext() if call is None else call.stage("open"):
            claimed = self.fleet.claim(wanted, self.opener.claim)
            return claimed or await self.fleet.acquire(wanted, self.opener.open)

    def forget(self, agent: AgentSettings, scope_key: str) -> None:
        """Look at a scope's settings again: those of an MCP server change with what was approved of it."""
        self._wanted.pop((agent.id, scope_key), None)

    def describe(self, agent: AgentSettings, scope_key: str) -> tuple[SandboxSpec, str]:
        """Return the spec of a scope, and its hash."""
        wanted = self._want(agent, scope_key)
        assert wanted.spec is not None
        return wanted.spec, wanted.spec.hash

    def _want(self, agent: AgentSettings, scope_key: str | None) -> Wanted:
        """Return what the calls of a scope need, or those on the host; settings are frozen, so one look suffices."""
        known = self._wanted.get((agent.id, scope_key))
        # A call may have been decided by the settings before these.
        if known is None or (known.agent is not agent and known.agent != agent):
            if len(self._wanted) >= _MOST_CACHED:
                self._wanted.clear()
                self._specs.clear()
            known = self._wanted[agent.id, scope_key] = self._look(agent, scope_key)
        return known

    def _look(self, agent: AgentSettings, scope_key: str | None) -> Wanted:
        if scope_key is None:
            workspace = binds.expand(agent.workspace, self.around.home)
            return Wanted(key=(Place.HOST, agent.id), version=workspace, agent=agent)
        try:
            described = describe(agent, scope_key, self.around, self._specs.get(agent.id))
        except ValueError as error:
            raise SandboxUnavailable(f"the sandbox cannot be made as configured: {error}") from None
        self._specs[agent.id] = described
        return Wanted.of(described.spec, agent)

    async def release_layer(self, scope_key: str) -> None:
        """End the sandbox that has the layer of a scope mounted; LayerBusy if something runs in it."""
        key = (Place.SANDBOX, scope_key)
        live = next((one for one in self.fleet.listed() if one.key == key), None)
        if live is not None:
            await live.settle()
        if live is not None and not live.idle:
            raise LayerBusy(f"something runs in the sandbox of {scope_key}; try again when it ended, or stop it first")
        await self.fleet.stop(key)

    async def reap(self, now: float) -> None:
        """End the places that are idle or old beyond what their agent's settings allow."""

        def stale(live: Live) -> bool:
            prune = live.wanted.agent.sandbox.prune
            return private_folders.is_stale(prune, used=live.used, made=live.started, now=now)

        await self.fleet.reap(stale)
        self.opener.spares.reap(stale)

    async def close(self) -> None:
        """End every place."""
        await self._watch.close()
        await self.opener.spares.close()
        await self.fleet.close()
        await self.registry.close()


def _gets_a_spare(agent: AgentSettings) -> bool:
    """Return whether a spare is this agent's without its asking: a pod costs more than a little memory."""
    return agent.source("sandbox.warm") == "default" and agent.sandbox.backend in ("auto", "bubblewrap")


def _begin(call: ToolCall, agent: AgentSettings, args: Mapping[str, Any], live: Live) -> Underway | None:
    """Note on a sandbox whose call it has now, and for how long at the latest."""
    live.wire.principal = PRINCIPAL.get()
    lasting = args.get("background") or args.get("detach")
    if lasting:
        live.left_running = True
    if live.scope is None:
        return None
    # What it leaves running may ask for something after its end.
    underway = live.scope.begin(call.session, None if lasting else time.time() + agent.sandbox.limits.time_ceiling)
    if call.tool == "exec" and (missed := near_miss(call.args, agent, sender=call.sender)):
        underway.hints.append(missed)
    return underway


async def _with_hints(result: ToolResult, hints: list[str], sink: Sink | None) -> ToolResult:
    """Add what a command was refused after its own errors, where they are read."""
    text = "".join(f"crabpot: {hint}\n" for hint in hints)
    if sink is not None:
        await sink("stderr", text.encode())
        return result
    gap = "" if not result.stderr or result.stderr.endswith("\n") else "\n"
    return replace(result, stderr=f"{result.stderr}{gap}{text}")


async def _limit_behind(exit_code: int, live: Live) -> tuple[str, str] | None:
    """Return the limit that killed a command, where the kernel tells; the exit code is not changed."""
    largest = live.sandbox.hello["limits"]["file_size"]
    if exit_code == _TOO_LARGE and largest is not None:
        return "disk_limit", f"a file would have grown beyond {largest} bytes (limits.fileSize)"
    cause = await live.sandbox.cause_of_death()
    if cause is None or (cause[0] == "memory_limit" and exit_code != _KILLED):
        return None
    return cause
