"""Streamed responses: events while a command runs, and files of any size."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from crabpot.doors.inflight import Sign

# Keeps proxies from closing an idle stream.
_PING_S = 15.0


def watched(request: Request) -> Sign:
    """Return what is set when the client disconnects. The body must have been read before."""
    state = request.scope["state"]
    gone: Sign = state["gone"]
    state["connection"].listen_on()
    return gone


class Pieces(Response):
    """A response that starts with its first chunk: until then its status can still change."""

    def __init__(self, media_type: str, write: Callable[[Pieces], Awaitable[Response | None]]) -> None:
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-content-type-options"] = "nosniff"
        self._write = write
        self._send: Send | None = None
        self.started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run `write`; what it returns instead of sending a first chunk is the response."""
        self._send = send
        instead = await self._write(self)
        if instead is not None and not self.started:
            await instead(scope, receive, send)
            return
        await self._body(b"", more=False)

    async def send(self, data: bytes) -> None:
        """Send a chunk, at the pace of the client."""
        if data:
            await self._body(data, more=True)

    async def _body(self, data: bytes, *, more: bool) -> None:
        assert self._send is not None
        if not self.started:
            self.started = True
            headers = self.raw_headers
            await self._send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


class Events:
    """Server-sent events on a response, with pings in between."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._turn = asyncio.Lock()

    async def send(self, kind: str, data: dict[str, Any]) -> None:
        """Send one event."""
        await self.send_json(kind, json.dumps(data))

    async def send_json(self, kind: str, text: str) -> None:
        """Send one event whose data is JSON already."""
        # JSON has no line breaks of its own, so one line of data is enough.
        await self._raw(f"event: {kind}\ndata: {text}\n\n".encode())

    async def _raw(self, data: bytes) -> None:
        async with self._turn:
            await self._pieces.send(data)

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Send pings during the block."""

        async def ping() -> None:
            while True:
                await asyncio.sleep(_PING_S)
                await self._raw(b": still running\n\n")

        pinging = asyncio.create_task(ping())
        try:
            yield
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)
