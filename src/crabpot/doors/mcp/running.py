"""One running call of an MCP client: its output on the way to the client, and its questions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult

from crabpot.doors.inflight import ClientGone, Sign, first_of
from crabpot.doors.mcp.eliciting import answer, message, schema
from crabpot.doors.mcp.results import with_bytes
from crabpot.doors.output import Output, streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from crabpot.approvals.requests import Answer, Request
    from crabpot.doors.mcp.server import Caller
    from crabpot.model import ToolResult

    Context = ServerRequestContext[Any, Any]


_LONGEST_WORD = 500


class Running:
    """A call, from the request that began it to the one that gets its result.

    Both are the same request, unless the client is asked something in between (`parking`).
    """

    task: asyncio.Task[ToolResult]

    def __init__(self, context: Context, caller: Caller, params: CallToolRequestParams) -> None:
        self.caller = caller
        self.params = params
        self.args = with_bytes(params.name, params.arguments or {})
        self._context = context
        self._sent = 0
        # Whether the client asked to be told what happens meanwhile.
        self.listens = progress_token_from_params(context.params) is not None
        self.output = Output(self._tell) if self.listens and streams(params.name, self.args) else None
        self.questions: dict[str, tuple[Request, asyncio.Future[Answer]]] = {}
        self._asked = Sign()

    @property
    def can_be_asked(self) -> bool:
        """Whether the operator lets its client be asked, and the client said that it can show a form."""
        capabilities = self._context.session.client_capabilities
        return self.caller.elicits and capabilities is not None and capabilities.elicitation is not None

    @property
    def sampler(self) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None:
        """Return what asks the client's model, where the client offers it and can be sent a request."""
        session = self._context.session
        capabilities = session.client_capabilities
        if capabilities is None or capabilities.sampling is None or not session.can_send_request:
            return None
        related = ServerMessageMetadata(related_request_id=self._context.request_id)

        async def sample(params: dict[str, Any]) -> dict[str, Any]:
            request = CreateMessageRequest(params=CreateMessageRequestParams.model_validate(params))
            try:
                answer = await session.send_request(request, CreateMessageResult, metadata=related)
            except MCPError as error:
                raise LookupError(error.error.message) from None
            return answer.model_dump(by_alias=True, exclude_none=True, mode="json")

        return sample

    def hand_over(self, context: Context) -> None:
        """Continue under another request of the same client."""
        self._context = context

    async def _tell(self, _stream: str, text: str) -> None:
        """Report output as progress: the number of characters so far, and the new text."""
        self._sent += len(text)
        await self._context.session.report_progress(float(self._sent), message=text)

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on how far an MCP server says that it is."""
        said = None if message is None else message[:_LONGEST_WORD]
        await self._context.session.report_progress(progress, total, said)

    async def announce(self, request: Request) -> None:
        """Report as progress that a person is waited for, and how that person answers."""
        self._sent += 1
        said = f"waiting for approval of: {request.shown}; answer with: crabpot approvals allow|deny {request.id}"
        await self._context.session.report_progress(float(self._sent), message=said)

    def result(self) -> ToolResult:
        """Return the result of a call that has ended."""
        if self.task.cancelled():
            raise ClientGone
        result = self.task.result()
        return result if self.output is None else self.output.whole(result)

    async def ask(self, request: Request) -> Answer:
        """Ask the client: by a request of ours or, since 2026, in the response to its own, which it then repeats."""
        if self._context.session.can_send_request:
            asked = self._context.session.elicit_form(message(request), schema(request), self._context.request_id)
            return answer(await asked, self.caller.by)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.questions[request.id] = request, answered
        self._asked.set()
        try:
            return await answered
        finally:
            del self.questions[request.id]

    async def pause(self, gone: Sign | None) -> None:
        """Wait until the call has ended or has a question; if the client disconnects or cancels, the call ends."""
        await first_of(self.task, self._asked, gone)
        self._asked.clear()
        if gone is not None and gone.is_set() and not self.task.done():
            self.task.cancel()
            raise ClientGone
