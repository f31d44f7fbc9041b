"""The pipeline that every call goes through, whatever the door: which, where, when, run, record."""

from __future__ import annotations

import os
from copy import copy
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from crabpot import host_tools
from crabpot.audit.records import ended, of_intent
from crabpot.audit.store import AuditUnavailable
from crabpot.decide import elevation, hints, policy, servers, sessions, verdicts
from crabpot.decide.scope import acting_for
from crabpot.decide.tools import BUILT_IN
from crabpot.errors import SandboxUnavailable, SessionError
from crabpot.model import Place, ToolCall, Verdict
from crabpot.sandboxes import remarks
from crabpot.sandboxes.running import RunningCall
from crabpot.scheduling.fair_loop import turn
from crabpot.tools.descriptions import describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.approvals.desk import Desk
    from crabpot.audit.store import AuditLog
    from crabpot.decide.placement import Placement
    from crabpot.decide.verdicts import Verdicts
    from crabpot.host_commands.elevated import ElevatedCommands
    from crabpot.host_commands.review.review import Review
    from crabpot.host_tools import HostTool
    from crabpot.model import ToolResult
    from crabpot.sandboxes.execution import Execution
    from crabpot.sandboxes.remarks import Remark
    from crabpot.sandboxes.streams import Streams
    from crabpot.servers.pool import Servers
    from crabpot.settings import AgentSettings, Settings

    Watcher = Callable[[ToolCall, ToolResult, Verdict[Any]], None]

# Decisions that depend on nothing but the settings are cached, for this many sessions and tools; not for long keys,
# which an agent could invent to fill our memory.
_MOST_CACHED, _LONGEST_CACHED = 4096, 256
# An agent may call whatever it invents, and the name is in the answer, in the log and in traces.
_LONGEST_NAME = 256


class Gateway:
    """One configuration, its live sandboxes, its host commands and its audit log."""

    ends_on_close = True

    def __init__(
        self, *, settings: Settings, execution: Execution, elevated: ElevatedCommands, audit: AuditLog
    ) -> None:
        self.settings = settings
        self.execution = execution
        self.elevated = elevated
        self.audit = audit
        # Set where the configuration has MCP servers.
        self.servers: Servers | None = None
        self.running: dict[str, RunningCall] = {}
        self._host_tools: dict[str, HostTool] = {}
        self._watchers: list[Watcher] = []
        self._farewells: list[Callable[[], Awaitable[None]]] = []
        self._rules = verdicts.Rules(settings)
        self._cached = lru_cache(maxsize=_MOST_CACHED)(self._decide)
        # Unlike those of every other gateway that writes to the same log.
        self._name, self._numbers = os.urandom(8).hex(), count(1)

    @property
    def desk(self) -> Desk:
        """The desk where operators are asked."""
        return self.elevated.desk

    async def adopt(self, settings: Settings) -> None:
        """Decide what comes by other settings. How the log is kept (`audit`) stays as it began."""
        before, self.settings = self.settings, settings
        self._rules = verdicts.Rules(settings)
        self._cached.cache_clear()
        self.elevated.host().settings = settings
        await self.execution.adopt(before, settings)

    def review(self, by: str = "python") -> Review:
        """Return what a person does with the changes of sessions under review; `by` is who, for the audit log."""
        from crabpot.host_commands.review.holding import OwnSandboxes  # noqa: PLC0415  no call needs it
        from crabpot.host_commands.review.review import Review  # noqa: PLC0415

        own = OwnSandboxes(settings=self.settings, execution=self.execution)
        return Review(settings=self.settings, state=self.execution.around.state, audit=self.audit, holder=own, by=by)

    def register(self, name: str, tool: HostTool) -> None:
        """Register a host tool, which then passes the same policy and audit as every other tool.

        Args:
            name: The tool's name, which the configuration lists in `tools.extra`.
            tool: A function or coroutine function that takes the tool's arguments by name. A dictionary that it
                returns is the result's `data`; any other value is in it as `value`. What it raises is a failed result.

        Example:
            >>> import asyncio, tempfile, crabpot
            >>> async def main() -> None:
            ...     with tempfile.NamedTemporaryFile("w", suffix=".json5") as config:
            ...         print('{tools: {extra: ["greet"]}}', file=config, flush=True)
            ...         async with crabpot.Gateway.open(config.name) as gateway:
            ...             gateway.register("greet", lambda name: f"hello {name}")
            ...             result = await gateway.call("agent:main:main", "greet", name="crab")
            ...             print(result.data)
            >>> asyncio.run(main())
            {'value': 'hello crab'}
        """
        self._host_tools[policy.canonical(name)] = tool

    def tools(self, session: str, *, host_allowed: bool = True) -> dict[str, HostTool | None]:
        """Return the tools that a session may use: the built-in ones, and the host tools with their callables."""
        agent, placed, _ = self._decided(session, "", host_allowed)
        left = policy.effective(agent, sandboxed=placed.answer.where is Place.SANDBOX)
        known = [name for name in left if name in BUILT_IN or name in self._host_tools]
        ours = {name: self._host_tools.get(name) for name in known if self._may(session, name, host_allowed)}
        others = [name for name in self._host_tools if name not in ours and self._may(session, name, host_allowed)]
        return ours | {name: self._host_tools[name] for name in others}

    async def offered(self, session: str, *, host_allowed: bool = True) -> list[dict[str, Any]]:
        """Describe the tools that the session's policy leaves, and only those."""
        agent, placed, _ = self._decided(session, "", host_allowed)
        offer = hints.offered(agent) if placed.answer.where is Place.SANDBOX else ""
        described = [describe(*one) for one in self.tools(session, host_allowed=host_allowed).items()]
        ours = [one.also(offer if one.name == "exec" else "").as_json() for one in described]
        if self.servers is None:
            return ours
        return ours + self.servers.offered(lambda name: self._may(session, name, host_allowed))

    async def passes(self, session: str, *, host_allowed: bool = True) -> list[str]:
        """List the calls by which the session gets what MCP servers have besides tools."""
        if self.servers is None:
            return []
        return self.servers.passes(lambda name: self._may(session, name, host_allowed))

    async def stamps(self, session: str, *, host_allowed: bool = True) -> dict[str, str]:
        """Return a text for each list of MCP servers that a client may keep, another one once the list may be."""
        if self.servers is None:
            return {}
        passed = await self.passes(session, host_allowed=host_allowed)
        return self.servers.stamps(self._decided(session, name, host_allowed)[1].answer.scope_key for name in passed)

    def _may(self, session: str, tool: str, host_allowed: bool) -> bool:  # noqa: FBT001  as it is cached
        return self._decided(session, tool, host_allowed)[2].answer

    def watch(self, watcher: Watcher, farewell: Callable[[], Awaitable[None]] | None = None) -> None:
        """Have `watcher` called with every call that ended, while its caller waits: it must be quick.

        `farewell` is awaited at the very end, when no more calls come.
        """
        self._watchers.append(watcher)
        if farewell is not None:
            self._farewells.append(farewell)

    async def call(  # noqa: PLR0913  the tool's own arguments stand beside the door's
        self,
        session: str,
        tool: str,
        args: Mapping[str, Any] | None = None,
        /,
        *,
        sender: str | None = None,
        streams: Streams | None = None,
        host_allowed: bool = True,
        **more: Any,
    ) -> ToolResult:
        """Decide on one tool call, run it, and record it.

        Args:
            session: The session key, such as `agent:main:telegram:42`. It names the agent, and so the policy.
            tool: A built-in tool, or a host tool from `register`.
            args: The tool's arguments; they may also be given by name, in `more`.
            sender: Who sent the message behind the call, for `tools.elevated.allowFrom`.
            streams: Connects the command's input and output while it runs.
            host_allowed: Whether the call may be placed on the host; if not, such a call is denied.
            **more: The tool's arguments by name.

        Returns:
            The result. Whatever the agent did wrong is a result, never an exception: `error` says what was refused.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.Gateway.open() as gateway:
            ...         gateway.register("greet", lambda name: f"hello {name}")
            ...         result = await gateway.call("agent:main:main", "exec", command="exit 3")
            ...         print(result.exit_code, result.place.value)
            ...         result = await gateway.call("agent:main:main", "greet", name="crab")
            ...         print(result.error.code)
            >>> asyncio.run(main())
            3 sandbox
            denied
        """
        name = tool if tool in verdicts.OURS else policy.canonical(tool)
        # Longer than any tool's, and so denied, whatever was cut off.
        name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        call_id = f"{self._name}-{next(self._numbers)}"
        given = {**(args or {}), **more}.items()
        # Copied: what the caller makes of its own lists meanwhile is neither what runs nor what is recorded.
        own = {key: copy(value) if type(value) in (list, dict) else value for key, value in given}
        call = ToolCall(id=call_id, session=session, tool=name, args=own, sender=sender)
        streamed: dict[str, int] = {}
        try:
            agent, placed, allowed = self._decided(session, name, host_allowed)
        except SessionError as error:
            nobodys = Verdict(answer=False, because="the key names no session", source="session key")
            return self._recorded(call, "", call.failed("invalid_arguments", str(error)), nobodys, streamed)

        if not allowed.answer:
            result = call.failed("denied", f"{name} is denied: {allowed.because} ({allowed.source})")
            return self._recorded(call, agent.id, result, allowed, streamed)

        if streams is not None and streams.remark is not None:
            self._remark(session, placed, streams.remark)
        place = placed.answer
        decided = elevation.of_call(call, agent, place)
        try:
            with RunningCall(call, streamed, self.running) as running, acting_for(agent.id, place.scope_key or session):
                if streams is not None:
                    running.detach = self.elevated.attend(streams, place)
                    streams = streams.passing(running.taking)
                # Whoever calls a thousand times at once waits for itself.
                await turn()
                if decided is not None:
                    result = await self.elevated.run(call, agent, place, decided, streams)
                elif place.where is Place.SANDBOX and name in verdicts.OURS:
                    result = await self.execution.run(call, agent, place, streams)
                else:
                    result = await self._run_elsewhere(call, agent, placed, streams)
        except SandboxUnavailable as error:
            result = call.failed("sandbox_unavailable", str(error))
        except BaseException:
            # The caller left, or its streams broke: the call was ended, and that is recorded too.
            result = call.failed("cancelled", "the caller ended the call", place.where)
            self._recorded(call, agent.id, result, placed, streamed)
            raise
        verdict: Verdict[Any] = decided or placed
        if decided is None and result.error is not None and result.error.code == "denied":
            # A server's tool that is withheld, or was never approved: its place is not the reason.
            because = result.error.message.removeprefix(f"{name} is denied: ")
            verdict = Verdict(answer=False, because=because, source=placed.source)
        return self._recorded(call, agent.id, result, verdict, streamed)

    def _decided(self, session: str, tool: str, host_allowed: bool) -> Verdicts:  # noqa: FBT001  a cache key is positional
        decide = self._cached if len(session) <= _LONGEST_CACHED else self._decide
        return decide(session, tool, host_allowed)

    def _decide(self, session: str, tool: str, host_allowed: bool) -> Verdicts:  # noqa: FBT001  as above
        return verdicts.decide(self._rules, session, tool, host_allowed=host_allowed)

    async def _run_elsewhere(
        self, call: ToolCall, agent: AgentSettings, placed: Verdict[Placement], streams: Streams | None
    ) -> ToolResult:
        """Run a tool of a server, or one that touches the host, which is recorded before."""
        built_in = call.tool in verdicts.OURS
        server = None if built_in else servers.owner(call.tool, self.settings)
        try:
            if server is not None and self.servers is not None:
                return await self.servers.run(server, call, agent, placed.answer, streams)
            self.audit.record(of_intent(call, agent.id, placed))
            await self.audit.durable()
            if built_in:
                return await self.execution.run(call, agent, placed.answer, streams)
            return await host_tools.run(call, self._host_tools.get(call.tool))
        except AuditUnavailable as error:
            return call.failed("internal", f"nothing touches the host without a record: {error}")

    def _remark(self, session: str, placed: Verdict[Placement], tell: Callable[[Remark], None]) -> None:
        key = sessions.parse(session, default_agent=self.settings.default_agent)
        for remark in remarks.of_session(key, placed, self.settings):
            tell(remark)

    def _recorded(
        self, call: ToolCall, agent: str, result: ToolResult, verdict: Verdict[Any], streamed: Mapping[str, int]
    ) -> ToolResult:
        self.audit.record_soon(ended(call, agent, result, verdict, streamed))
        for watcher in self._watchers:
            watcher(call, result, verdict)
        return result

    async def close(self) -> None:
        """End every sandbox and flush the log. Requests that wait for an operator are denied."""
        try:
            await self.desk.close()
            if self.servers is not None:
                await self.servers.close()
            await self.execution.close()
        finally:
            self.audit.close()
        for farewell in self._farewells:
            await farewell()
