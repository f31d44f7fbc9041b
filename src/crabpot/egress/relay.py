"""Bytes between an upcall and a connection, both ways at once, each at the pace of whoever takes them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

# A frame of it goes into an empty socket's buffer whole: what does not is copied once more on its way.
_READ = 128 << 10
# After the server's end a client has this long to say what it still wants to say.
_LINGER_S = 60.0


class Stream(Protocol):
    """The side of the sandbox: what an upcall of the wire gives."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What the runner said when it began; nothing of it is needed here."""

    async def read(self) -> bytes:
        """Take what has come; nothing at the end."""

    async def write(self, data: bytes) -> None:
        """Send, no faster than it is taken."""

    def write_eof(self) -> None:
        """Say that no more follows."""

    def reply(self, **fields: Any) -> None:
        """Say how it ended."""


class Inbox:
    """What a program inside sends, with what was read of it and not yet used."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.waiting = bytearray()

    async def more(self) -> bool:
        """Wait for more; False at the end."""
        data = await self._stream.read()
        self.waiting += data
        return bool(data)

    def take(self, size: int) -> bytes:
        """Take the first bytes of what waits."""
        taken = bytes(self.waiting[:size])
        del self.waiting[:size]
        return taken

    async def next(self) -> bytes:
        """Take whatever comes next; nothing at the end."""
        return self.take(len(self.waiting)) if self.waiting else await self._stream.read()


class Counted:
    """How much went each way."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.sent = self.received = 0


async def send(sock: socket.socket, data: bytes, counted: Counted) -> None:
    """Send all of it."""
    counted.sent += len(data)
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def both_ways(
    stream: Stream, sock: socket.socket, up: Callable[[], Coroutine[Any, Any, None]], counted: Counted
) -> None:
    """Pass everything down while `up` passes what it will; over when both are, or the server is and then the client."""
    sending = asyncio.create_task(up())
    receiving = asyncio.create_task(_down(stream, sock, counted))
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


async def _down(stream: Stream, sock: socket.socket, counted: Counted) -> None:
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while data := await loop.sock_recv(sock, _READ):
            counted.received += len(data)
            await stream.write(data)
    stream.write_eof()


def half_close(sock: socket.socket) -> None:
    """Tell the server that no more comes."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
