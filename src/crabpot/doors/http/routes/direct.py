"""Plain requests, answered without the framework's routing and validation, which take longer than what is asked for.

Those are calls of built-in tools, and the lists that an operator's page shows.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request

from crabpot.doors.http.requests import LONGEST_KEY, decoded
from crabpot.tools.descriptions import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from crabpot.doors.http.routes.calls import Calling
    from crabpot.doors.http.routes.operations import Operating

    Answer = Callable[[Request], Awaitable[Response]]

_SESSIONS, _TOOLS, _RECORDS = "/v1/sessions/", "tools", "/v1/audit"
_LIMIT = re.compile(rb"limit=([1-9][0-9]{0,2})")


class Direct:
    """Takes the plain requests, and leaves all others to the application."""

    def __init__(self, app: FastAPI, calling: Calling, operating: Operating) -> None:
        self._app = app
        self._calling = calling
        self._operating = operating
        self._lists: dict[str, Answer] = {
            "/v1/approvals": operating.approvals,
            "/v1/sandboxes": operating.sandboxes,
            _RECORDS: operating.newest,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request that was admitted."""
        answer = self._list(scope) if scope["method"] == "GET" else self._call(scope)
        if answer is None:
            await self._app(scope, receive, send)
            return
        response = await self._answered(Request(scope, receive), answer)
        await response(scope, receive, send)

    async def _answered(self, request: Request, answer: Answer) -> Response:
        try:
            return await answer(request)
        except Exception as error:
            for kind, handler in self._app.exception_handlers.items():
                if isinstance(kind, type) and isinstance(error, kind):
                    refused: Response = await handler(request, error)  # type: ignore[misc]
                    return refused
            raise

    def _list(self, scope: Scope) -> Answer | None:
        """Return what answers a request for a list, as long as it is."""
        asked: bytes = scope["query_string"]
        found = self._lists.get(scope["path"])
        if not asked or found is None:
            return found
        limit = _LIMIT.fullmatch(asked) if scope["path"] == _RECORDS else None
        return None if limit is None else partial(self._operating.newest, limit=int(limit[1]))

    def _call(self, scope: Scope) -> Answer | None:
        asked = _plain(scope)
        if asked is None:
            return None
        return partial(self._calling.call, key=decoded(asked[0]), tool=asked[1], stated=None, stream=False)


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
