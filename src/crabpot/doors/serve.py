"""`crabpot serve`: one long-lived gateway behind a Unix socket of the same user.

Clients speak the frames of the wire, so that streaming, flow control and cancellation are the same on both hops.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError, SessionError
from crabpot.execution import Streams
from crabpot.runner.frames import ACK_EVERY, MAX_PAYLOAD, WINDOW, FrameError, FrameReader, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

SOCKET_NAME = "serve.sock"

_READ = 256 * 1024
_TEXT_IN_RESULT = 128 * 1024
_MAX_CALLS = 256
_SESSION_LENGTH = 4096

# struct ucred: pid, uid, gid
_CREDENTIALS = struct.Struct("3i")


class AlreadyServing(CrabpotError):
    """Another gateway listens on this state folder's socket."""


@contextlib.asynccontextmanager
async def serve(gateway: Gateway, state: str, inquiries: Callable[[str, Any], Any]) -> AsyncIterator[str]:
    """Listen, for as long as the context lasts; `inquiries` answers what is not a tool call."""
    path = os.path.join(state, SOCKET_NAME)
    os.makedirs(state, mode=0o700, exist_ok=True)
    listener = _listen(path)
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await _Connection(gateway, inquiries, reader, writer).run()
        finally:
            connections.discard(task)

    server = await asyncio.start_unix_server(accept, sock=listener, limit=_READ)
    try:
        yield path
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _listen(path: str) -> socket.socket:
    """Bind the socket, private from its first moment; one that nobody answers on is a dead gateway's, and replaced."""
    with socket.socket(socket.AF_UNIX) as probe:
        if os.path.lexists(path):
            try:
                probe.connect(path)
            except OSError:
                os.unlink(path)
            else:
                raise AlreadyServing(f"a gateway already serves on {path}")
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def same_user(sock: socket.socket) -> bool:
    """Tell whether the other end runs as this user; the kernel says so, not the peer."""
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())


class _Connection:
    """One client and its calls; when it goes, they are cancelled."""

    def __init__(
        self,
        gateway: Gateway,
        inquiries: Callable[[str, Any], Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._gateway = gateway
        self._inquiries = inquiries
        self._reader = reader
        self.writer = writer
        self._calls: dict[str, _ClientCall] = {}
        self._frames = FrameReader()

    async def run(self) -> None:
        """Serve until the client goes, or breaks the protocol."""
        try:
            if same_user(self.writer.get_extra_info("socket")):
                while data := await self._reader.read(_READ):
                    for header, payload in self._frames.feed(data):
                        self._take(header, payload)
        except (FrameError, ConnectionError):
            pass
        finally:
            tasks = [call.task for call in self._calls.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.writer.close()

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        kind, call_id = header.get("op"), header.get("id")
        if kind == "hello":
            self.send({"op": "ready", "protocol": 1})
            return
        if not isinstance(call_id, str) or not 0 < len(call_id) <= 64:  # noqa: PLR2004  as the runner's
            raise FrameError("a frame without an id")
        if kind is None:
            self._start(call_id, header)
            return
        call = self._calls.get(call_id)
        if call is not None:
            call.take(str(kind), header, payload)

    def _start(self, call_id: str, header: dict[str, Any]) -> None:
        if call_id in self._calls or len(self._calls) >= _MAX_CALLS:
            raise FrameError("an id that is in use, or too many calls at once")
        call = _ClientCall(self, call_id, header)
        self._calls[call_id] = call
        call.task = asyncio.create_task(self._run(call, header))
        call.task.add_done_callback(lambda _: self._calls.pop(call_id, None))

    async def _run(self, call: _ClientCall, header: dict[str, Any]) -> None:
        args, session = header.get("args"), header.get("session")
        args = args if isinstance(args, dict) else {}
        tool = str(header.get("tool"))
        try:
            if "inquiry" in header:
                answer = await self._inquiries(str(header["inquiry"]), args)
                self.send({"id": call.id, "success": True, "data": {"answer": answer}})
                return
            if not isinstance(session, str) or len(session) > _SESSION_LENGTH:
                raise SessionError("a call without a session key")
            result = await self._gateway.call(session, tool, args, streams=call.streams())
        except CrabpotError as error:
            self.send({"id": call.id, "success": False, "error": {"code": "internal", "message": str(error)}})
            return
        except asyncio.CancelledError:
            with contextlib.suppress(ConnectionError):
                self.send({"id": call.id, "success": False, "error": {"code": "cancelled", "message": "cancelled"}})
            return
        await call.answer(result)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame."""
        self.writer.write(encode(header, payload))


class _ClientCall:
    """One call of a client, and its flow in both directions."""

    task: asyncio.Task[None]

    def __init__(self, connection: _Connection, call_id: str, header: dict[str, Any]) -> None:
        self.id = call_id
        self._connection = connection
        self._stream = header.get("stream") is True
        self._input: asyncio.Queue[bytes | None] | None = asyncio.Queue() if header.get("input") is True else None
        self._resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._unread = 0
        self._room = WINDOW
        self._moved = asyncio.Event()

    def streams(self) -> Streams:
        """Connect the call to its client."""
        return Streams(
            source=None if self._input is None else self._pieces(self._input),
            sink=self.send_output if self._stream else None,
            resizes=self._resizes if self._stream else None,
        )

    def take(self, kind: str, header: dict[str, Any], payload: bytes) -> None:
        """Take a frame that belongs to the call."""
        if kind == "cancel":
            self.task.cancel()
        elif kind == "input" and self._input is not None:
            self._unread += len(payload)
            if self._unread > WINDOW:
                raise FrameError("more input than the window allows")
            if payload:
                self._input.put_nowait(payload)
            if header.get("eof") is True:
                self._input.put_nowait(None)
        elif kind == "ack" and type(header.get("n")) is int:
            self._room = min(WINDOW, self._room + max(0, header["n"]))
            self._moved.set()
        elif kind == "resize" and type(header.get("rows")) is int and type(header.get("cols")) is int:
            self._resizes.put_nowait((header["rows"], header["cols"]))

    async def _pieces(self, pieces: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        consumed = 0
        while (piece := await pieces.get()) is not None:
            yield piece
            consumed += len(piece)
            if consumed >= ACK_EVERY:
                self._connection.send({"op": "ack", "id": self.id, "n": consumed})
                self._unread -= consumed
                consumed = 0

    async def send_output(self, stream: str, data: bytes) -> None:
        """Send output at the pace of the client."""
        for start in range(0, len(data), MAX_PAYLOAD):
            piece = data[start : start + MAX_PAYLOAD]
            while self._room < len(piece):
                self._moved.clear()
                await self._moved.wait()
            self._room -= len(piece)
            self._connection.send({"op": "output", "id": self.id, "stream": stream}, piece)
        await self._connection.writer.drain()

    async def answer(self, result: ToolResult) -> None:
        """Send the result; what would not fit into a line goes ahead of it, or beside it."""
        shaped = result.as_json()
        if len(result.stdout) + len(result.stderr) > _TEXT_IN_RESULT:
            await self.send_output("stdout", result.stdout.encode("utf-8", "replace"))
            await self.send_output("stderr", result.stderr.encode("utf-8", "replace"))
            shaped["stdout"] = shaped["stderr"] = ""
        content = b""
        if result.data is not None and isinstance(result.data.get("content"), str):
            data = dict(result.data)
            text = data.pop("content")
            content = base64.b64decode(text) if data.get("encoding") == "base64" else text.encode("utf-8", "replace")
            shaped["data"] = data
        header = {**shaped, "id": self.id, "call": result.id}
        try:
            self._connection.send(header, content)
        except FrameError as error:
            reason = {"code": "output_limit", "message": f"the result is too large: {error}"}
            self._connection.send({"id": self.id, "success": False, "error": reason, "place": result.place.value})
