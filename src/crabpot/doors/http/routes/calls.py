"""The routes by which agents call tools, and move files in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request  # noqa: TC002  FastAPI reads the annotations of its routes
from starlette.responses import Response

from crabpot.doors.http.context import CallRequest, Context, as_json
from crabpot.doors.http.requests import FilePath, Key, Sender, headers_of, object_of, sender_of, user_of
from crabpot.doors.http.routes import openapi
from crabpot.doors.http.routes.streaming import Events, Pieces, watched
from crabpot.doors.output import Output, streams
from crabpot.sandboxes.streams import Streams
from crabpot.tools.descriptions import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.doors.http.access.principals import Principal
    from crabpot.model import ToolResult

# The status of a call that the gateway did not or could not run. Every other result is 200.
_REFUSED = {
    "denied": 403,
    "approval_denied": 403,
    "approval_timeout": 403,
    "invalid_arguments": 400,
    "sandbox_unavailable": 503,
    "internal": 500,
}
# For files the other codes have a status too, as HTTP clients expect.
_OF_FILES = _REFUSED | {
    "not_found": 404,
    "permission_denied": 403,
    "read_only": 403,
    "outside": 403,
    "is_directory": 409,
    "not_a_file": 409,
    "exists": 409,
    "conflict": 409,
    "disk_limit": 507,
    "timeout": 504,
    "sandbox_lost": 502,
}
_BYTES = "application/octet-stream"
_EVENTS = "text/event-stream"


class Broken(Exception):
    """A file that could not be sent completely: the connection is broken off, so that nobody takes it for complete."""


def add_routes(router: APIRouter, calling: Calling) -> None:
    """Add the routes of agents."""
    for tool in BUILT_IN.values():
        router.add_api_route(
            f"/v1/sessions/{{key}}/tools/{tool.name}",
            calling.built_in(tool.name),
            methods=["POST"],
            summary=tool.title,
            description=tool.description,
            operation_id=tool.name,
            responses=openapi.results(tool),
            openapi_extra=openapi.body_of(tool),
            response_model=None,
        )
    router.add_api_route(
        "/v1/sessions/{key}/tools/{tool}",
        calling.any_tool,
        methods=["POST"],
        summary="Call a host tool",
        operation_id="host_tool",
        responses=openapi.results(None),
        openapi_extra=openapi.body_of(None),
        response_model=None,
    )
    offered = {"type": "object", "properties": {"tools": {"type": "array", "items": {"type": "object"}}}}
    router.add_api_route(
        "/v1/sessions/{key}/tools",
        calling.offered,
        methods=["GET"],
        summary="List the tools that the session may use",
        operation_id="tools",
        responses=openapi.answers(openapi.json_of(offered)),
        response_model=None,
    )
    _add_files(router, calling)


def _add_files(router: APIRouter, calling: Calling) -> None:
    failures = {
        "s404": "No such file",
        "s409": "Not a file",
        "s500": "The tool failed",
        "s502": "The sandbox was lost",
        "s504": "It took too long",
    }
    raw = {_BYTES: {"schema": {"type": "string", "format": "binary"}}}
    router.add_api_route(
        "/v1/sessions/{key}/files/{path:path}",
        calling.download,
        methods=["GET"],
        summary="Download a file",
        operation_id="download",
        responses=openapi.answers(raw, **failures),
        response_model=None,
    )
    created: dict[int | str, dict[str, Any]] = {
        201: {"description": "Created", "content": openapi.json_of(openapi.RESULT)}
    }
    router.add_api_route(
        "/v1/sessions/{key}/files/{path:path}",
        calling.upload,
        methods=["PUT"],
        summary="Upload a file",
        operation_id="upload",
        responses=openapi.answers(openapi.json_of(openapi.RESULT), **failures, s507="The disk's limit") | created,
        openapi_extra={"requestBody": {"content": raw, "required": False}},
        response_model=None,
    )


class Calling:
    """Passes each request to the gateway, and its result to the client."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def built_in(self, name: str) -> Callable[..., Awaitable[Response]]:
        """Return the route of a built-in tool."""

        async def route(request: Request, key: Key, stream: bool = False, sender: Sender = None) -> Response:  # noqa: FBT001, FBT002
            return await self.call(request, key, name, sender, stream=stream)

        return route

    async def any_tool(
        self,
        request: Request,
        key: Key,
        tool: Annotated[str, Path(min_length=1)],
        stream: Annotated[bool, Query()] = False,  # noqa: FBT002
        sender: Sender = None,
    ) -> Response:
        """Call a host tool of the embedding program, or a built-in tool by an alias."""
        return await self.call(request, key, tool, sender, stream=stream)

    async def offered(self, request: Request, key: Key) -> Response:
        """Describe the tools that the session's policy allows, and only those."""
        host_allowed = user_of(request, key).host_allowed
        return as_json({"tools": await self._context.gateway.offered(key, host_allowed=host_allowed)})

    async def call(self, request: Request, key: str, tool: str, stated: str | None, *, stream: bool) -> Response:
        """Call a tool with the request's body as its arguments."""
        principal = user_of(request, key)
        sender = sender_of(principal, stated)
        asked = _call_request(principal, key, tool, await object_of(request), sender)
        if stream or _EVENTS in headers_of(request).get("accept", ""):
            return Pieces(_EVENTS, lambda pieces: self._stream(request, pieces, asked))
        result = await self._context.call(asked, gone=watched(request))
        return _answer(result, _REFUSED)

    async def _stream(self, request: Request, pieces: Pieces, asked: CallRequest) -> Response | None:
        events = Events(pieces)

        async def tell(stream: str, text: str) -> None:
            await events.send("output", {"stream": stream, "text": text})

        output = Output(tell) if streams(asked.tool, asked.args) else None
        given = None if output is None else Streams(sink=output.sink)
        async with events.kept_alive():
            result = await self._context.call(asked, streams=given, gone=watched(request))
        pieces.status_code = _REFUSED.get(_code(result), 200)
        await events.send("result", (result if output is None else output.whole(result)).as_json())
        return None

    async def download(self, request: Request, key: Key, path: FilePath) -> Response:
        """Send a file unchanged, whatever its size."""
        principal = user_of(request, key)
        asked = _call_request(principal, key, "read", {"path": path, "encoding": "base64"}, principal.sender)

        async def write(pieces: Pieces) -> Response | None:
            async def take(_stream: str, data: bytes) -> None:
                await pieces.send(data)

            result = await self._context.call(asked, streams=Streams(sink=take), gone=watched(request))
            if result.success:
                return Response(b"", media_type=_BYTES)
            if pieces.started:
                raise Broken(_code(result))
            return _answer(result, _OF_FILES)

        return Pieces(_BYTES, write)

    async def upload(self, request: Request, key: Key, path: FilePath) -> Response:
        """Write a file from the body; it replaces an old one only once the body is complete."""
        principal = user_of(request, key)
        asked = _call_request(principal, key, "write", {"path": path}, principal.sender)
        source = Streams(source=request.stream())
        result = await self._context.call(asked, streams=source, gone=request.scope["state"]["gone"])
        made = result.success and bool((result.data or {}).get("created"))
        return _answer(result, _OF_FILES, good=201 if made else 200)


def _call_request(
    principal: Principal, session: str, tool: str, args: dict[str, Any], sender: str | None
) -> CallRequest:
    return CallRequest(session=session, tool=tool, args=args, sender=sender, host_allowed=principal.host_allowed)


def _code(result: ToolResult) -> str:
    return "" if result.error is None else result.error.code


def _answer(result: ToolResult, statuses: dict[str, int], *, good: int = 200) -> Response:
    return as_json(result.as_json(), status=statuses.get(_code(result), good))
