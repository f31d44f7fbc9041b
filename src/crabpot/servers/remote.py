"""A server at a URL: the protocol's messages as HTTP requests, which leave through egress alone."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from crabpot.approvals.display import line as displayed
from crabpot.servers.http import Broken, ThroughEgress
from crabpot.servers.messages import Allowance, Misbehaved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from mcp.shared.message import SessionMessage

    from crabpot.egress.reaching import Egress

# It writes what a server says to our standard error.
logging.getLogger("mcp.client.streamable_http").disabled = True


@dataclass(slots=True, kw_only=True)
class Remote:
    """Carries messages to and from a server at a URL."""

    url: str
    egress: Egress
    # Where it is configured, for errors.
    source: str
    longest: int
    allowance: Allowance = field(default_factory=Allowance)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _why: str = ""

    def new_call(self) -> None:
        """Reset how much the server may send to what one call may take."""
        self.allowance.new_call()

    async def carry(
        self, written: AsyncIterator[SessionMessage], heard: Callable[[SessionMessage], Awaitable[None]]
    ) -> str:
        """Carry messages until a request fails or the server goes too far, and return why."""
        transport = ThroughEgress(self.egress, self._taken, self.source)
        client = httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False)
        session = streamable_http_client(self.url, http_client=client, max_sse_event_size=self.longest)
        try:
            async with client, session as (reading, writing):
                await self._exchange(_up(written, writing), self._down(reading, heard))
        except Exception as error:  # noqa: BLE001  whatever it is, the connection is over
            self._why = self._why or _sentence(error)
        return self._why or "its connection ended"

    async def _exchange(self, *both: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.create_task(one) for one in (*both, self._too_far())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception):
                raise one

    async def _down(self, reading: AsyncIterator[Any], heard: Callable[[SessionMessage], Awaitable[None]]) -> None:
        async for one in reading:
            if isinstance(one, Exception):
                self.allowance.count_garbage()
            elif self.allowance.hears(one.message):
                await heard(one)
        raise Broken("its connection ended")

    def _taken(self, count: int) -> None:
        try:
            self.allowance.count_bytes(count)
        except Misbehaved as error:
            # Whoever reads is the SDK, which goes on after most errors.
            self._why = str(error)
            self._over.set()
            raise Broken(self._why) from None

    async def _too_far(self) -> None:
        await self._over.wait()
        raise Misbehaved(self._why)


async def _up(written: AsyncIterator[SessionMessage], writing: Any) -> None:
    async for one in written:
        await writing.send(one)


def _sentence(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = str(error) if isinstance(error, Broken | Misbehaved) else f"{type(error).__name__}: {error}"
    return displayed(said[:500])
