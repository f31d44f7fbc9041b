"""The complete HTTP door of a serving gateway: the application, MCP, metrics and listeners."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot.doors.http.access.limits import Limits
from crabpot.doors.http.access.tokens import Tokens
from crabpot.doors.http.context import Context
from crabpot.doors.http.listening import listen
from crabpot.doors.http.routes.mcp_on_demand import McpOnDemand
from crabpot.doors.http.routes.metrics import Metrics
from crabpot.doors.http.routes.on_demand import RoutesOnDemand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.http.listening import Address, Listeners
    from crabpot.gateway import Gateway


@asynccontextmanager
async def opened(gateway: Gateway, at: Address | None, limits: Limits | None = None) -> AsyncIterator[Listeners]:
    """Open the door for the block, and yield its listeners."""
    context = Context(gateway=gateway, metrics=Metrics(gateway))
    tokens = Tokens(context.state)
    if at is not None:
        tokens.need_operator()
    mcp = McpOnDemand(context)
    routes = RoutesOnDemand(context, mcp)
    async with mcp.served(), listen(context, routes, tokens, at, limits or Limits()) as listeners:
        yield listeners
