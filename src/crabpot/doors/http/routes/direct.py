"""Calls of built-in tools, answered without the framework's routing and validation, which take longer than the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from crabpot.doors.http.requests import LONGEST_KEY, decoded
from crabpot.tools.descriptions import BUILT_IN

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from crabpot.doors.http.routes.calls import Calling

_SESSIONS, _TOOLS = "/v1/sessions/", "tools"


class DirectCalls:
    """Takes the plain requests for a built-in tool, and leaves all others to the application."""

    def __init__(self, app: FastAPI, calling: Calling) -> None:
        self._app = app
        self._calling = calling

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request that was admitted."""
        asked = _plain(scope)
        if asked is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        response = await self._answer(request, decoded(asked[0]), asked[1])
        await response(scope, receive, send)

    async def _answer(self, request: Request, key: str, tool: str) -> Response:
        try:
            return await self._calling.call(request, key, tool, None, stream=False)
        except Exception as error:
            for kind, handler in self._app.exception_handlers.items():
                if isinstance(kind, type) and isinstance(error, kind):
                    refused: Response = await handler(request, error)  # type: ignore[misc]
                    return refused
            raise


def _plain(scope: Scope) -> tuple[str, str] | None:
    """Return the key, as it was sent, and the tool of a request that is a call and nothing else."""
    path: str = scope["path"]
    if scope["method"] != "POST" or scope["query_string"] or not path.startswith(_SESSIONS):
        return None
    parts = path.removeprefix(_SESSIONS).split("/")
    if len(parts) != 3 or parts[1] != _TOOLS or parts[2] not in BUILT_IN:  # noqa: PLR2004  the key, and those two
        return None
    if not 0 < len(parts[0]) <= LONGEST_KEY or any(map(_says_more, scope["headers"])):
        return None
    return parts[0], parts[2]


def _says_more(header: tuple[bytes, bytes]) -> bool:
    """Return whether a header asks for events instead of a result, or names a sender."""
    return header[0] == b"crabpot-sender" or (header[0] == b"accept" and b"text/event-stream" in header[1])
