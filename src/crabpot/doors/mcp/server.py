"""The MCP server over a gateway: lists the tools of the caller's session, and passes its calls to the gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp_types import CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as Offer

from crabpot import __version__
from crabpot.doors.mcp.asker import Announced, Clients, PendingQuestion
from crabpot.doors.mcp.changes import Changes
from crabpot.doors.mcp.long_output import fitted
from crabpot.doors.mcp.parking import Parking
from crabpot.doors.mcp.passing import Passing
from crabpot.doors.mcp.results import as_mcp
from crabpot.doors.mcp.running import Running
from crabpot.errors import CrabpotError
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp_types import CallToolRequestParams, InputRequiredResult, PaginatedRequestParams

    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.inflight import Calls, Sign
    from crabpot.model import ToolResult

    Context = ServerRequestContext[Any, Any]

_INSTRUCTIONS = (
    "The tools work in one place: {folder} and the processes there. Paths are relative to {folder}, or absolute as "
    "seen inside. A refusal names the rule behind it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf a request comes. It is configured or authenticated, never taken from the arguments."""

    session: str
    sender: str | None = None
    name: str = "client"
    # Whether the operator opted in to asking this client for approvals.
    elicits: bool = False
    # Whether results come as data too, for clients that are programs and ask for it.
    structured: bool = False
    # Whether calls may be placed on the host: not with an agent's token, unless the operator allowed it.
    host_allowed: bool = True
    gone: Sign | None = field(default=None, compare=False)

    @property
    def by(self) -> str:
        """The name of this caller as the author of an answer."""
        return f"mcp {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The two requests that matter, for any transport."""

    gateway: AnyGateway
    calls: Calls
    caller: Callable[[Context], Caller]
    # Where the tools work, as seen inside.
    folder: str = "/workspace"
    # What is passed on of MCP servers besides their tools.
    passed: frozenset[str] = frozenset()
    # Whether there are MCP servers, whose lists may change.
    changing: bool = False
    _parking: Parking = field(default_factory=Parking)
    _clients: Clients = field(default_factory=Clients)

    def server(self) -> Server[Any]:
        """Return the protocol server."""
        kinds = frozenset({"tools"}) | self.passed
        changes = Changes(gateway=self.gateway, caller=self.caller, kinds=kinds) if self.changing else None
        passing = Passing(gateway=self.gateway, calls=self.calls, caller=self.caller, changes=changes)
        return _Protocol(
            "crabpot",
            version=__version__,
            title="Crabpot",
            instructions=_INSTRUCTIONS.format(folder=self.folder),
            # No argument of ours is also a header; without this, the SDK would list all tools before each call.
            get_tool_input_schema=lambda _name: None,
            on_list_tools=lambda context, params: self._list(context, params, changes),
            on_subscriptions_listen=None if changes is None else changes.listen,
            on_call_tool=self._call,
            **passing.handlers(self.passed),
        )

    async def _list(
        self, context: Context, _params: PaginatedRequestParams | None, changes: Changes | None
    ) -> ListToolsResult:
        caller = self.caller(context)
        if changes is not None:
            # Before it is listed: what changes meanwhile is news again.
            await changes.follow(context)
        offered = await self.gateway.offered(caller.session, host_allowed=caller.host_allowed)
        return ListToolsResult(tools=[_offer(one, structured=caller.structured) for one in offered])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        caller = self.caller(context)
        running = self._parking.take(caller, params)
        if running is None:
            running = Running(context, caller, params)
            running.task = self.calls.start(self._run(running))
            self._clients.follow(running)
        else:
            running.hand_over(context)
        try:
            asked = await self._parking.outcome(running, caller.gone)
            if asked is not None:
                return asked
            result = running.result()
        except CrabpotError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        if not caller.structured:
            result = await fitted(self.gateway, caller, result)
        return as_mcp(result, caller.session, running.args, structured=caller.structured)

    async def _run(self, running: Running) -> ToolResult:
        caller = running.caller
        sink = None if running.output is None else running.output.sink
        asked = PendingQuestion(clients=self._clients, caller=caller) if running.can_be_asked else None
        told = Announced(running) if running.listens else None
        progress = running.report if running.listens else None
        streams = Streams(sink=sink, approver=asked or told, progress=progress, sampler=running.sampler)
        return await self.gateway.call(
            caller.session,
            running.params.name,
            running.args,
            sender=caller.sender,
            streams=streams,
            host_allowed=caller.host_allowed,
        )


class _Protocol(Server[Any]):
    """The SDK's server, which promises by itself to tell of changed lists where it does."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> InitializationOptions:
        """Return what a client is told first."""
        if notification_options is None and self.get_request_handler("subscriptions/listen") is not None:
            notification_options = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options, *args, **more)


def _offer(one: dict[str, Any], *, structured: bool) -> Offer:
    return Offer(
        name=one["name"],
        title=one["title"],
        description=one["description"],
        input_schema=one["input_schema"],
        output_schema=one["output_schema"] if structured else None,
        annotations=ToolAnnotations.model_validate(one["hints"]),
        # Claude Code hides the tools of a server behind a search, and its own not.
        _meta={"anthropic/alwaysLoad": True},
    )
