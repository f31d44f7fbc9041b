"""The route /mcp, imported at its first request: its SDK takes more than half of a gateway's start."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from contextvars import Context as Variables
from typing import TYPE_CHECKING

from starlette.routing import Route

from crabpot.doors.late_import import imported

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

    from crabpot.doors.http.context import Context
    from crabpot.doors.http.routes.mcp import Mcp

PATH = "/mcp"


def _load() -> type[Mcp]:
    from crabpot.doors.http.routes.mcp import Mcp  # noqa: PLC0415

    return Mcp


class McpOnDemand:
    """The endpoint. Behind its first request runs the manager of its clients, in a task of nobody's."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ready: asyncio.Future[Mcp] | None = None
        self._running: asyncio.Task[None] | None = None

    def route(self) -> Route:
        """Return the route to add to the application."""
        return Route(PATH, endpoint=self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            # It belongs to all who come: neither the time nor the end of the first of them is its own.
            self._running = asyncio.create_task(self._run(self._ready), context=Variables())
        mcp = await asyncio.shield(self._ready)
        await mcp(scope, receive, send)

    async def _run(self, ready: asyncio.Future[Mcp]) -> None:
        try:
            mcp = (await imported(_load))(self._context)
            async with mcp.manager.run():
                ready.set_result(mcp)
                await asyncio.Event().wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            # The next request tries again.
            self._ready = None

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """End the clients' sessions after the block."""
        try:
            yield
        finally:
            if self._running is not None:
                self._running.cancel()
                with suppress(asyncio.CancelledError):
                    await self._running
