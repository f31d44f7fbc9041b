"""Notify MCP clients that a list changed: what a server announced, an operator approved, or a configuration said."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_to_notification
from mcp_types import INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.server.context import ServerRequestContext
    from mcp.server.subscriptions import ServerEvent
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.mcp.server import Caller

    Context = ServerRequestContext[Any, Any]

# How often a client's lists are looked at. What an operator approves is a file, which another process writes.
_LOOK_S = 1.0
_MOST_STREAMS = 16
_EVENTS: dict[str, ServerEvent] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}


@dataclass(frozen=True, slots=True)
class _Followed:
    """The lists of one caller, as what the SDK subscribes to."""

    gateway: AnyGateway
    caller: Caller
    kinds: frozenset[str]
    before: dict[str, str]

    async def events(self) -> AsyncIterator[ServerEvent]:
        """Yield what changed since `before`, until the gateway is gone."""
        before = self.before
        while True:
            await asyncio.sleep(_LOOK_S)
            now = await self.gateway.stamps(self.caller.session, host_allowed=self.caller.host_allowed)
            for what in [one for one in _EVENTS if one in self.kinds and now.get(one) != before.get(one)]:
                yield _EVENTS[what]
            before = now

    async def publish(self, event: ServerEvent) -> None:
        """Do nothing: what is new is found by looking."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Call `listener` with what is new until the returned function is called."""

        async def tell() -> None:
            with suppress(CrabpotError):
                async for event in self.events():
                    listener(event)

        task = asyncio.create_task(tell())

        def stop() -> None:
            task.cancel()

        return stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Follows the lists of clients: since 2026 of those that ask for it, before that of all that have listed."""

    gateway: AnyGateway
    caller: Callable[[Context], Caller]
    # Which lists clients may be told of, `tools` among them.
    kinds: frozenset[str]
    _streams: Counter[str] = field(default_factory=Counter)

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Notify a client of changes in the response to its request, for as long as it listens."""
        caller = self.caller(context)
        if self._streams[caller.name] >= _MOST_STREAMS:
            raise MCPError(INVALID_REQUEST, f"{caller.name} listens to {_MOST_STREAMS} streams already")
        self._streams[caller.name] += 1
        try:
            lists = params.notifications.model_copy(update={"resource_subscriptions": None})
            handler = ListenHandler(await self._followed(caller))
            return await handler(context, params.model_copy(update={"notifications": lists}))
        finally:
            self._streams[caller.name] -= 1

    async def follow(self, context: Context) -> None:
        """Notify a client of changes from now on, once for each connection and session."""
        # The SDK has no public way from a request to its connection, whose end must end this.
        connection = getattr(context.session, "_connection", None)
        if connection is None or context.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        caller = self.caller(context)
        followed = connection.state.setdefault("crabpot", set())
        if caller.session in followed or len(followed) >= _MOST_STREAMS:
            return
        followed.add(caller.session)
        task = asyncio.create_task(_tell(context, await self._followed(caller)))
        connection.exit_stack.callback(task.cancel)

    async def _followed(self, caller: Caller) -> _Followed:
        before = await self.gateway.stamps(caller.session, host_allowed=caller.host_allowed)
        return _Followed(self.gateway, caller, self.kinds, before)


async def _tell(context: Context, followed: _Followed) -> None:
    with suppress(CrabpotError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for event in followed.events():
            await context.session.send_notification(event_to_notification(event, {}))
