"""Relay bytes between an upcall and a connection, both ways at once, each at the pace of its receiver."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from crabpot.egress.outside import Outside

# After the server's EOF, a client has this long to send the rest.
_LINGER_S = 60.0


class Silent(Exception):
    """A server that sent nothing for as long as it may."""


class Stream(Protocol):
    """The sandbox's side of a connection: an upcall of the wire."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields that the runner began the upcall with; none is needed here."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at EOF."""

    async def write(self, data: bytes) -> None:
        """Send bytes, no faster than they are received."""

    def write_eof(self) -> None:
        """Send EOF."""

    def reply(self, **fields: Any) -> None:
        """Send the final reply."""


class Inbox:
    """The bytes that a program inside sends, with a buffer of those read but not yet used."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.waiting = bytearray()

    async def more(self) -> bool:
        """Wait for more bytes; return False at EOF."""
        data = await self._stream.read()
        self.waiting += data
        return bool(data)

    def take(self, size: int) -> bytes:
        """Remove and return the first buffered bytes."""
        taken = bytes(self.waiting[:size])
        del self.waiting[:size]
        return taken

    async def next(self) -> bytes:
        """Return whatever comes next; empty at EOF."""
        return self.take(len(self.waiting)) if self.waiting else await self._stream.read()


class Counted:
    """How many bytes went each way."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent = self.received = 0


async def send(server: Outside, data: bytes, counted: Counted) -> None:
    """Send all the bytes."""
    counted.sent += len(data)
    await server.send(data)


async def both_ways(
    stream: Stream,
    server: Outside,
    up: Callable[[], Coroutine[Any, Any, None]],
    counted: Counted,
    silent_s: float | None = None,
) -> None:
    """Pass all bytes down while `up` passes bytes up, until both end, or the server does and a grace period is over.

    Nothing either way for `silent_s` raises Silent: its answer might never end, and hold a connection until
    the sandbox does.
    """
    sending = asyncio.create_task(up())
    receiving = asyncio.create_task(_down(stream, server, counted, silent_s))
    try:
        done, _ = await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if sending in done:
            sending.result()
            await receiving
        else:
            receiving.result()
            await asyncio.wait((sending,), timeout=_LINGER_S)
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _down(stream: Stream, server: Outside, counted: Counted, silent_s: float | None) -> None:
    with suppress(ConnectionError):
        while data := await _received(server, counted, silent_s):
            counted.received += len(data)
            await stream.write(data)
    stream.write_eof()


async def _received(server: Outside, counted: Counted, silent_s: float | None) -> bytes:
    while True:
        sent = counted.sent
        try:
            async with asyncio.timeout(silent_s):
                return await server.receive()
        except TimeoutError:
            # A server may well wait for the end of a long request.
            if counted.sent == sent:
                raise Silent from None
