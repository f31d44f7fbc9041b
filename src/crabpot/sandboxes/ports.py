"""Ports of servers inside that this machine reaches: a port of the host's loopback for each, through the wire.

Each has an origin of its own. Below the API's origin a page of the agent's would read the operator's token.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from crabpot.wire.calls import RunnerWire

_LOOPBACK = "127.0.0.1"
_READ = 64 * 1024
_LONGEST_S = 30 * 86_400.0
_MOST = 64

# Inside, one process for each connection: it can do no more than what the agent could do anyway.
RELAY = """
import os, select, socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
peer.settimeout(None)
reading = [0, peer]
while peer in reading:
    for one in select.select(reading, [], [])[0]:
        data = peer.recv(65536) if one is peer else os.read(0, 65536)
        if not data:
            reading.remove(one)
            one is peer or peer.shutdown(socket.SHUT_WR)
        elif one is peer:
            while data:
                data = data[os.write(1, data):]
        else:
            peer.sendall(data)
"""


class Ports:
    """The ports of one sandbox; they end with it."""

    def __init__(self, wire: RunnerWire) -> None:
        self._wire = wire
        self._listening: dict[int, asyncio.Server] = {}
        self._connections: dict[asyncio.Task[None], int] = {}

    @property
    def opened(self) -> dict[int, int]:
        """Return each port inside with the port of the host's loopback that leads to it."""
        return {port: server.sockets[0].getsockname()[1] for port, server in self._listening.items()}

    async def open(self, ports: Iterable[int]) -> None:
        """Listen for each, at the same number where that is free."""
        for port in ports:
            if port not in self._listening:
                self._listening[port] = await self._listen(port)

    async def _listen(self, port: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(port, reader, writer)

        try:
            return await asyncio.start_server(serve, _LOOPBACK, port)
        except OSError:
            return await asyncio.start_server(serve, _LOOPBACK, 0)

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def sink(stream: str, data: bytes) -> None:
            if stream == "stdout":
                writer.write(data)
                await writer.drain()

        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = port
        try:
            if len(self._connections) <= _MOST:
                argv = ["/bin/sh", "-c", 'exec python3 -I -S -c "$0" "$1"', RELAY, str(port)]
                with suppress(SandboxError, ConnectionError):
                    args = {"argv": argv}
                    await self._wire.call("run", args, timeout_s=_LONGEST_S, source=_said(reader), sink=sink)
        except asyncio.CancelledError:
            pass  # By `close`; asyncio's own callback reports a cancelled task as an error.
        finally:
            del self._connections[task]
            writer.close()

    def close(self, port: int | None = None) -> bool:
        """Listen no more at one port, or at all, and end its connections; return whether it was open."""
        closed = [one for one in self._listening if port in (None, one)]
        for one in closed:
            self._listening.pop(one).close()
        for task, through in list(self._connections.items()):
            if through in closed:
                task.cancel()
        return bool(closed)


async def _said(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with suppress(ConnectionError):
        while data := await reader.read(_READ):
            yield data
