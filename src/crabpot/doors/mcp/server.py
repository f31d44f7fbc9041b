"""The MCP server over a gateway: lists what the caller's session may use, and takes its calls to the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import Server
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp_types import Tool as Offer

from crabpot import __version__
from crabpot.doors import tools
from crabpot.doors.client import RemoteGateway
from crabpot.doors.mcp.results import as_mcp
from crabpot.doors.output import Output, streams
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, PaginatedRequestParams

    from crabpot.doors.inflight import Calls
    from crabpot.gateway import Gateway

    Context = ServerRequestContext[Any, Any]

_INSTRUCTIONS = (
    "The tools work in one place: /workspace and the processes there. Paths are relative to /workspace, or absolute as "
    "seen inside. What is refused names the rule behind it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf a request comes. It is configured or authenticated, and never one of the arguments."""

    session: str
    sender: str | None = None
    gone: asyncio.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The two requests that matter, for whichever transport."""

    gateway: Gateway | RemoteGateway
    calls: Calls
    caller: Callable[[Context], Caller]
    # Waited for before a result is told, where a restart must not lose what was.
    recorded: Callable[[], Awaitable[None]] | None = None

    def server(self) -> Server[Any]:
        """Make the server that speaks the protocol."""
        return Server(
            "crabpot",
            version=__version__,
            title="Crabpot",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        session = self.caller(context).session
        if isinstance(self.gateway, RemoteGateway):
            offered = await self.gateway.offered(session)
        else:
            offered = tools.offered(self.gateway, session)
        return ListToolsResult(tools=[_offer(one) for one in offered])

    async def _call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        caller, args = self.caller(context), params.arguments or {}
        output = Output(_Progress(context).tell) if _listens(context) and streams(params.name, args) else None
        try:
            result = await self.calls.run(
                self.gateway.call(
                    caller.session,
                    params.name,
                    args,
                    sender=caller.sender,
                    streams=None if output is None else output.streams(),
                ),
                caller.gone,
            )
        except CrabpotError as error:
            return CallToolResult(content=[TextContent(text=str(error))], is_error=True)
        if self.recorded is not None:
            await self.recorded()
        return as_mcp(result if output is None else output.whole(result), caller.session, args)


class _Progress:
    """Output as notifications of progress: how many characters so far, and the new ones."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._told = 0

    async def tell(self, _stream: str, text: str) -> None:
        self._told += len(text)
        await self._context.session.report_progress(float(self._told), message=text)


def _listens(context: Context) -> bool:
    return progress_token_from_params(context.params) is not None


def _offer(one: dict[str, Any]) -> Offer:
    return Offer(
        name=one["name"],
        title=one["title"],
        description=one["description"],
        input_schema=one["input_schema"],
        output_schema=one["output_schema"],
        annotations=ToolAnnotations.model_validate(one["hints"]),
    )
