"""Ports of servers inside, by the name in an address: `3000-ID.localhost`, an origin of its own for each.

A connection is recognised by the host of its first request, and is then passed on byte by byte.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.protocol import Timely
from crabpot.doors.inflight import ClientGone
from crabpot.sandboxes.ports import RELAY
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes

_HOST = re.compile(rb"\r\nhost:[ \t]*([0-9]{1,5})-([0-9a-f]{20})\.localhost(?::[0-9]{1,5})?[ \t]*\r\n", re.IGNORECASE)
_LONGEST_HEAD = 64 * 1024
_READ = 64 * 1024
_NONE = b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"


class PortOrApi(Timely):
    """A connection to the API, or, by the name that it asks for, to a port inside a sandbox."""

    _head: bytearray | None = bytearray()
    _relay: asyncio.StreamReaderProtocol | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._head = bytearray()

    def data_received(self, data: bytes) -> None:
        """Read the first head; everything after it goes where that said."""
        if self._head is None:
            super().data_received(data)
            return
        self._head += data
        if b"\r\n\r\n" not in self._head and len(self._head) <= _LONGEST_HEAD:
            return
        head, self._head = bytes(self._head), None
        named = _HOST.search(head.partition(b"\r\n\r\n")[0] + b"\r\n")
        if named is None:
            super().data_received(head)
            return
        self._stop_waiting()
        self._connections.left(self)
        # The server must not wait at its end for a connection whose end it is not told.
        self.connections.discard(self)
        self._pass_on(head, int(named[1]), named[2].decode())

    def _pass_on(self, head: bytes, port: int, identity: str) -> None:
        """Make of this connection a pair of streams to the port."""
        sandboxes: Sandboxes = self.app_state["sandboxes"]
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_READ, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, loop)
        reader.feed_data(head)
        sandboxes.context.calls.start(_serve(sandboxes, identity, port, reader, writer))


async def _serve(
    sandboxes: Sandboxes, identity: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    found = sandboxes.by(lambda sandbox: sandbox.id == identity)
    said = "The sandbox was not found" if found is None else f"port {port} is not open in the sandbox"
    sent = False

    async def sink(stream: str, data: bytes) -> None:
        nonlocal sent
        if stream == "stdout":
            sent = True
            writer.write(data)
            await writer.drain()

    try:
        if found is not None:
            with suppress(Refusal, ClientGone, ConnectionError):
                await _relay(sandboxes, found, port, reader, sink)
        if not sent:
            writer.write(_NONE % (len(said), said.encode()))
    finally:
        writer.close()


async def _relay(sandboxes: Sandboxes, sandbox: Sandbox, port: int, reader: asyncio.StreamReader, sink: Any) -> None:
    async def said() -> AsyncIterator[bytes]:
        with suppress(ConnectionError):
            while data := await reader.read(_READ):
                yield data

    args = {
        "command": ["python3", "-I", "-S", "-c", RELAY, str(port)],
        "timeout": sandboxes.agent(sandbox).sandbox.limits.time_ceiling,
    }
    await sandboxes.call(sandbox, "exec", args, streams=Streams(source=said(), sink=sink, paced=True))
