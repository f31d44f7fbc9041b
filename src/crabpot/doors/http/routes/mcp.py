"""MCP as streamable HTTP, at /mcp: the token identifies the session, or a header if that leaves a choice."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from crabpot.doors.http.access.limits import MOST_JSON, Pace
from crabpot.doors.mcp.server import Caller, Tools
from crabpot.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive, Scope, Send

    from crabpot.doors.http.access.principals import Principal
    from crabpot.doors.http.context import Context

SESSION, STRUCTURED = "crabpot-session", "crabpot-structured"

_MAIN = "agent:main:main"
# MCP sessions per principal; it may hold more only while each of them has a request.
_MOST_SESSIONS = 64
# To begin one costs more than a call does; a client begins one, and whoever begins many is kept waiting.
_BEGINNINGS_PER_S = 5.0
_HELD = b"mcp-session-id"
_FAILED = 400


class Mcp:
    """The endpoint, and the manager of its clients, which must run while the endpoint is served."""

    def __init__(self, context: Context) -> None:
        servers = context.gateway.settings.mcp.servers.values()
        changing = bool(servers)
        passed = frozenset(what for one in servers for what in ("resources", "prompts") if getattr(one, what))
        tools = Tools(
            gateway=context.gateway,
            calls=context.calls,
            caller=_caller,
            passed=passed,
            changing=changing,
        )
        self.manager = StreamableHTTPSessionManager(tools.server(), max_request_body_size=MOST_JSON, max_sessions=None)
        self._beginnings = Pace(per_s=_BEGINNINGS_PER_S, burst=_MOST_SESSIONS)
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request. The manager binds each client's session to the principal that began it."""
        principal: Principal = scope["state"]["principal"]
        whose = AccessToken(token=principal.name, client_id=principal.name, scopes=[], subject=principal.name)
        scope = {**scope, "user": AuthenticatedUser(whose)}
        held = self._held[principal.name]
        within = _held_by(scope["headers"])
        begun = None

        async def heard(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and scope["method"] == "DELETE" and message["status"] < _FAILED:
                # What its client has ended counts no more, whatever else is still answered in it.
                held.pop(within or "", None)
            if message["type"] == "http.response.start" and within is None:
                begun = _held_by(message["headers"])
                if begun is not None:
                    held[begun] += 1
                    self._beginnings.add(principal.name)
                    await self._beginnings.turn(principal.name)
            await send(message)

        if within is not None and within in held:
            # Moved to the end: the least recently used is the first to go.
            held[within] = held.pop(within) + 1
        try:
            await self.manager.handle_request(scope, receive, heard)
        finally:
            for one in (within, begun):
                if one is not None and one in held:
                    held[one] -= 1
        await self._end_oldest(held, scope)

    async def _end_oldest(self, held: Counter[str], scope: Scope) -> None:
        """End a principal's oldest sessions beyond its limit; a client that comes back begins a new one."""
        idle = [one for one, requests in held.items() if not requests]
        for one in idle[: max(0, len(held) - _MOST_SESSIONS)]:
            del held[one]
            headers = [(_HELD, one.encode()), (b"accept", b"application/json, text/event-stream")]
            await self.manager.handle_request({**scope, "method": "DELETE", "headers": headers}, _nothing, _unheard)


def _held_by(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _HELD), None)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: Message) -> None:
    pass


def _caller(context: Any) -> Caller:
    """Return on whose behalf a request comes; each is judged by itself, whatever MCP session it is in."""
    request = context.request
    state = request.scope["state"]
    principal: Principal = state["principal"]
    usual = _MAIN if principal.operates else principal.only_session()
    session = request.headers.get(SESSION, usual)
    if session is None:
        raise MCPError(code=INVALID_REQUEST, message="name the session in the header Crabpot-Session")
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
        structured=request.headers.get(STRUCTURED) == "true",
        host_allowed=principal.host_allowed,
        gone=state["gone"],
    )
