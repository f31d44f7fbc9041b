"""The stream of one exec: channels of a WebSocket on one side, a plain socket that the wire reads on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import aiohttp

from crabpot.backends.kubernetes.boot import MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.backends.kubernetes.client import Cluster

_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
# One message may be no larger than what API servers take in one read.
_LARGEST = 32 * 1024
_MOST_WORDS = 16 * 1024
_END_S = 2.0


class ExecStream:
    """A program in a container, for as long as this lives: it ends with its stream.

    `sock` is the gateway's end. What the program writes to its standard error is kept apart: first its report, then
    the last words that a person may need.
    """

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self.sock, self._inner = socket.socketpair()
        for end in (self.sock, self._inner):
            end.setblocking(False)
        self.ended: str | None = None
        self._websocket = websocket
        self._words = b""
        self._reported: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._tasks = (asyncio.create_task(self._read()), asyncio.create_task(self._write()))

    @classmethod
    async def open(cls, cluster: Cluster, path: str, command: Sequence[str], *, container: str) -> ExecStream:
        """Start the program; ClusterError if it cannot be."""
        return cls(await cluster.exec(path, command, container=container))

    async def report(self, timeout_s: float) -> dict[str, Any]:
        """Return what the program said of itself; EOFError with its last words if it ended, or TimeoutError."""
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(self._reported)

    @property
    def words(self) -> str:
        """Return what the program wrote to its standard error, for a person."""
        return self._words.replace(MARK, b"").decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End the stream, and with it the program; safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_END_S):
                await self._websocket.close()
        for end in (self.sock, self._inner):
            end.close()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        why = "the stream ended"
        try:
            async for message in self._websocket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, content = message.data[0], message.data[1:]
                if channel == _STDOUT and content:
                    await loop.sock_sendall(self._inner, content)
                elif channel == _STDERR:
                    self._hear(content)
                elif channel == _STATUS and content:
                    why = _ending(content)
                    break
        except (OSError, aiohttp.ClientError) as error:
            why = f"the stream broke: {error}"
        finally:
            self._end(why)

    def _hear(self, content: bytes) -> None:
        self._words = (self._words + content)[-_MOST_WORDS * 4 :]
        mark, end = self._words.find(MARK), -1
        if mark >= 0:
            end = self._words.find(b"\n", mark + len(MARK))
        if end < 0 or self._reported.done():
            return
        try:
            found = json.loads(self._words[mark + len(MARK) : end])
        except ValueError:
            return
        self._words = self._words[end + 1 :]
        if isinstance(found, dict):
            self._reported.set_result(found)

    def _end(self, why: str) -> None:
        self.ended = f"{why}{f': {self.words[-500:]}' if self.words else ''}"
        if not self._reported.done():
            self._reported.set_exception(EOFError(self.ended))
            self._reported.exception()  # Whoever waits gets it; nobody may.
        # The other end reads an end of file: the wire is lost.
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_RDWR)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while content := await loop.sock_recv(self._inner, _LARGEST):
                await self._websocket.send_bytes(bytes((_STDIN,)) + content)
            # The wire was closed: the program reads an end of file, and ends.
            await self._websocket.send_bytes(bytes((_CLOSE, _STDIN)))
        except (OSError, aiohttp.ClientError) as error:
            self._end(f"the stream broke: {error}")


def _ending(content: bytes) -> str:
    """Return what the cluster says of the program's end."""
    try:
        status = json.loads(content)
        return "its program ended" if status.get("status") == "Success" else str(status.get("message"))[:500]
    except (ValueError, AttributeError):
        return "the stream ended"
