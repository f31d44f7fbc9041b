"""TLS over whatever carries bytes both ways: a socket outside, or the wire to a sandbox."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Receive = Callable[[], Awaitable[bytes]]
    Transmit = Callable[[bytes], Awaitable[None]]

_READ = 128 << 10


class Secured:
    """One end of a TLS stream."""

    def __init__(
        self, context: ssl.SSLContext, receive: Receive, transmit: Transmit, *, server_hostname: str | None = None
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_hostname is None
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server, server_hostname=server_hostname
        )
        self._receive = receive
        self._transmit = transmit
        # Records leave in the order in which they were made, whoever made them.
        self._leaving = asyncio.Lock()

    async def handshake(self) -> None:
        """Agree on keys, or raise ssl.SSLError."""
        while True:
            try:
                self._object.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLError:
                # The alert that tells the other side why.
                with suppress(ConnectionError):
                    await self._flush()
                raise
            else:
                await self._flush()
                return

    async def read(self) -> bytes:
        """Return the next bytes; empty at EOF, and where the stream was cut."""
        while True:
            try:
                return self._object.read(_READ)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise ConnectionError(f"broken TLS: {error.reason}") from None

    async def write(self, data: bytes) -> None:
        """Send all the bytes."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._object.write(view) :]
            except ssl.SSLError as error:
                raise ConnectionError(f"broken TLS: {error.reason}") from None
            await self._flush()

    async def finish(self) -> None:
        """Announce to the other side that no more follows."""
        # It raises unless the other side has said the same already; the message has left by then.
        with suppress(ssl.SSLError):
            self._object.unwrap()
        with suppress(ConnectionError):
            await self._flush()

    async def _feed(self) -> None:
        data = await self._receive()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        async with self._leaving:
            data = self._outgoing.read()
            if data:
                await self._transmit(data)
