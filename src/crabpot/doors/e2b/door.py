"""The complete E2B door of a serving gateway, opened when it is first asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from crabpot.doors.e2b.entry import E2bEntry
from crabpot.doors.e2b.files import Files
from crabpot.doors.e2b.filesystem_rpc import FilesystemRpc
from crabpot.doors.e2b.interpreter import Interpreter
from crabpot.doors.e2b.ports import PortOrApi
from crabpot.doors.e2b.process_rpc import ProcessRpc
from crabpot.doors.e2b.rest import Rest
from crabpot.doors.e2b.sandboxes import Sandboxes
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.access.tokens import Tokens
from crabpot.doors.http.listening import Address
from crabpot.doors.inflight import ClientGone
from crabpot.errors import CrabpotError
from crabpot.state.files import write_whole

if TYPE_CHECKING:
    from starlette.requests import Request

    from crabpot.doors.http.listening import Listeners

TOKEN = "e2b"  # noqa: S105  a token's name
# Where a program of the same user finds the API key.
SECRET_NAME = "e2b.token"  # noqa: S105  a file's name


class E2bDoor:
    """The E2B API of one gateway."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._url: str | None = None

    async def open(self) -> str:
        """Listen on the loopback, if it does not yet, and return the address."""
        if self._url is None:
            context = self._listeners.context
            tokens = Tokens(context.state)
            sandboxes = Sandboxes(context, tokens)
            rest = Rest(sandboxes)
            entry = E2bEntry(tokens=tokens, sandboxes=sandboxes)
            app = _application(rest, sandboxes, entry)
            at = Address(host="127.0.0.1", port=0)
            self._url = await self._listeners.on_loopback(app, entry, at, PortOrApi, sandboxes=sandboxes)
            self._listeners.farewells.append(sandboxes.close)
            rest.domain = f"localhost:{self._url.rpartition(':')[2]}"
        return self._url


def _application(rest: Rest, sandboxes: Sandboxes, entry: E2bEntry) -> Starlette:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return entry.refused(error, request.scope)

    async def failed(request: Request, error: Exception) -> Response:
        return entry.refused(Refusal(500, "internal", str(error)), request.scope)

    async def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path[:128]!a} is no part of the E2B API that Crabpot offers"
        return entry.refused(Refusal(error.status_code, "not_found", message), request.scope)

    handlers: dict[Any, Any] = {
        Refusal: refused,
        HTTPException: no_route,
        CrabpotError: failed,
        ClientGone: _gone,
        ClientDisconnect: _gone,
    }
    parts = (rest, ProcessRpc(sandboxes), FilesystemRpc(sandboxes), Files(sandboxes), Interpreter(sandboxes))
    return Starlette(routes=[route for part in parts for route in part.routes()], exception_handlers=handlers)


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # The client is gone: nobody reads this.


def api_key(state: str, agent: str) -> str:
    """Return the API key of this user's own programs, for sandboxes of one agent; it is made when first asked for."""
    tokens, name = Tokens(state), TOKEN if agent == "main" else f"{TOKEN}-{agent}"
    path = os.path.join(state, SECRET_NAME if agent == "main" else f"{SECRET_NAME}-{agent}")
    try:
        with open(path, encoding="ascii") as stream:
            secret = stream.read().strip()
    except OSError:
        secret = ""
    found = tokens.find(secret)
    if found is not None and found.name == name:
        return secret
    known = any(token.name == name for token in tokens.listed())
    secret = tokens.rotate(name) if known else tokens.add(name, Role.AGENT, sessions=(f"agent:{agent}:e2b:*",))
    write_whole(path, f"{secret}\n")
    return secret
