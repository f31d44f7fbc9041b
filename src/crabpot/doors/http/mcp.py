"""MCP as streamable HTTP, at /mcp: the token says whose tools they are, and a header where that leaves a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST
from starlette.routing import Route

from crabpot.doors.http.limits import MOST_JSON
from crabpot.doors.mcp.server import Caller, Tools
from crabpot.errors import SessionError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from crabpot.doors.http.house import House
    from crabpot.doors.http.principals import Principal

PATH = "/mcp"
SESSION = "crabpot-session"

_MAIN = "agent:main:main"
_MOST_SESSIONS = 1000


class Mcp:
    """The endpoint, and the manager of its clients, which must run while requests are served."""

    def __init__(self, house: House) -> None:
        tools = Tools(gateway=house.gateway, calls=house.calls, caller=_caller, recorded=house.recorded)
        self.manager = StreamableHTTPSessionManager(
            tools.server(), max_request_body_size=MOST_JSON, max_sessions=_MOST_SESSIONS
        )

    def route(self) -> Route:
        """Give the route to add to the application."""
        return Route(PATH, endpoint=self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request. The manager keeps each client's session to the principal that began it."""
        principal: Principal = scope["state"]["principal"]
        whose = AccessToken(token=principal.name, client_id=principal.name, scopes=[], subject=principal.name)
        await self.manager.handle_request({**scope, "user": AuthenticatedUser(whose)}, receive, send)


def _caller(context: Any) -> Caller:
    """Say on whose behalf a request comes; each is judged by itself, whatever session of the protocol it is in."""
    request = context.request
    state = request.scope["state"]
    principal: Principal = state["principal"]
    usual = _MAIN if principal.operates else principal.only_session()
    session = request.headers.get(SESSION, usual)
    if session is None:
        raise MCPError(code=INVALID_REQUEST, message="say which session: the header Crabpot-Session")
    try:
        may = principal.may_use(session)
    except SessionError as error:
        raise MCPError(code=INVALID_PARAMS, message=str(error)) from None
    if not may:
        raise MCPError(code=INVALID_REQUEST, message=f"the token {principal.name} is not for this session")
    return Caller(
        session=session,
        sender=principal.sender,
        name=principal.name,
        elicits=principal.elicits,
        host_allowed=principal.host_allowed,
        gone=state["gone"],
    )
