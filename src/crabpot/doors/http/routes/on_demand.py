"""The routes behind the HTTP door, imported at the first request that is admitted: FastAPI is slow to import."""

from __future__ import annotations

import asyncio
import gc
from contextvars import Context as Variables
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from crabpot.doors.http.context import Context
    from crabpot.doors.http.routes.mcp_on_demand import McpOnDemand


class RoutesOnDemand:
    """The application of one gateway. Whether a request is admitted was decided before it comes here."""

    def __init__(self, context: Context, mcp: McpOnDemand) -> None:
        self._context = context
        self._mcp = mcp
        self._app: ASGIApp = self._first
        self._making: asyncio.Task[ASGIApp] | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        return self._app(scope, receive, send)

    async def _first(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one that came before the routes were there."""
        if self._making is None:
            # It belongs to all who come: neither the allowance nor the end of the first of them is its own.
            self._making = asyncio.create_task(asyncio.to_thread(self._make), context=Variables())
        try:
            self._app = await asyncio.shield(self._making)
        except Exception:
            # The next request tries again.
            self._making = None
            raise
        await self._app(scope, receive, send)

    def _make(self) -> ASGIApp:
        from crabpot.doors.http.api import complete  # noqa: PLC0415

        app = complete(self._context, self._mcp)
        # What was imported never becomes garbage: it is not searched for any.
        gc.freeze()
        return app
