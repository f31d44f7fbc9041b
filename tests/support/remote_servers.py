"""A server of the official SDK at a loopback address, and a proxy in front of it that records and misbehaves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from pydantic import AnyHttpUrl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Verifier:
    """Takes one token, as an authorization server's would be."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose it is, or None."""
        return AccessToken(token=token, client_id="it", scopes=["use"]) if token == self._token else None


def official(token: str | None = None) -> MCPServer:
    """Return a server with a few tools, made with the SDK as its users do; with a token, it wants OAuth."""
    protected: dict[str, Any] = {}
    if token is not None:
        issuer, own = AnyHttpUrl("https://login.example"), AnyHttpUrl("http://127.0.0.1/mcp")
        auth = AuthSettings(
            issuer_url=issuer, resource_server_url=own, required_scopes=["use"], validate_token_resource=False
        )
        protected = {"auth": auth, "token_verifier": Verifier(token)}
    server = MCPServer("remote", **protected)

    @server.tool()
    def echo(text: str) -> str:
        """Say something back."""
        return text

    @server.tool()
    async def steps(context: Context) -> str:
        """Report progress twice."""
        await context.report_progress(1, 2, "half")
        await context.report_progress(2, 2, "whole")
        return "done"

    @server.tool()
    def big(size: int) -> str:
        """Return a long text."""
        return "x" * size

    @server.tool()
    async def slow() -> str:
        """Take for ever."""
        await asyncio.sleep(3600)
        return "never"

    return server


@dataclass(slots=True)
class Served:
    """What the server heard, and how it is to answer."""

    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    # An answer in place of the server's own: a status, headers and a body.
    instead: tuple[int, dict[str, str], bytes] | None = None

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}/mcp"


@asynccontextmanager
async def served(
    json_response: bool = False,  # noqa: FBT001, FBT002  a fixture's choice
    token: str | None = None,
) -> AsyncIterator[Served]:
    """Serve it on the loopback until the end of the block."""
    app = official(token).streamable_http_app(json_response=json_response)
    seen = Served()

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            seen.requests.append((scope["method"], headers))
            if seen.instead is not None:
                status, more, body = seen.instead
                raw = [(name.encode(), value.encode()) for name, value in more.items()]
                await send({"type": "http.response.start", "status": status, "headers": raw})
                await send({"type": "http.response.body", "body": body})
                return
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(recording, host="127.0.0.1", port=0, log_level="error"))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        seen.port = server.servers[0].sockets[0].getsockname()[1]
        yield seen
    finally:
        server.should_exit = server.force_exit = True
        await task
