"""One call of a client, and its flow in both directions."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crabpot.runner.core.frames import FrameError
from crabpot.sandboxes.streams import Streams
from crabpot.wire.flow import Intake, Window, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.local.connection import Connection
    from crabpot.model import ToolResult
    from crabpot.sandboxes.remarks import Remark

# More text than this is sent before the result: escaped as JSON it may grow sixfold, beyond a line.
_TEXT_IN_RESULT = 128 * 1024


class ClientCall:
    """A call, the streams that connect it to its client, and its answer."""

    task: asyncio.Task[None]

    def __init__(self, connection: Connection, call_id: str, header: dict[str, Any]) -> None:
        self.id = call_id
        self._connection = connection
        self._stream = header.get("stream") is True
        self._asks = header.get("asks") is True
        self._paced = self._stream and header.get("paced") is True
        self._input: asyncio.Queue[bytes | None] | None = asyncio.Queue() if header.get("input") is True else None
        self._fed = False
        self._resizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(1)
        self._intake = Intake(lambda size: connection.send({"op": "ack", "id": call_id, "n": size}))
        self._window = Window()

    def streams(self) -> Streams:
        """Return the streams that connect the call to its client."""
        return Streams(
            source=None if self._input is None else self._pieces(self._input),
            sink=self._send_output if self._stream else None,
            resizes=self._resizes if self._stream else None,
            approver=self._connection.asker if self._asks else None,
            remark=self._remark if self._asks else None,
            paced=self._paced,
        )

    def _remark(self, remark: Remark) -> None:
        self._connection.send({"op": "remark", "id": self.id, **asdict(remark)})

    def take(self, kind: Any, header: dict[str, Any], payload: bytes) -> None:
        """Handle a frame that belongs to the call."""
        if kind == "cancel":
            self.task.cancel()
        elif kind == "input" and self._input is not None:
            if payload:
                self._intake.arrived(len(payload))
                self._input.put_nowait(payload)
            if header.get("eof") is True and not self._fed:
                self._fed = True
                self._input.put_nowait(None)
        elif kind == "ack":
            self._window.acknowledged(header.get("n"))
        elif kind == "resize" and type(header.get("rows")) is int and type(header.get("cols")) is int:
            if self._resizes.full():
                self._resizes.get_nowait()
            self._resizes.put_nowait((header["rows"], header["cols"]))
        else:
            raise FrameError("a frame of no known kind")

    async def _pieces(self, queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        while (piece := await queue.get()) is not None:
            yield piece
            self._intake.took(len(piece))

    async def _send_output(self, stream: str, data: bytes) -> None:
        """Send output at the pace of the client."""
        for piece in pieces(data) if data else ():
            await self._window.take(len(piece))
            self._connection.send({"op": "output", "id": self.id, "stream": stream}, piece)
        await self._connection.drain()

    async def answer(self, result: ToolResult) -> None:
        """Send the result; what would not fit into a line is sent before it, or beside it."""
        shaped = result.as_json()
        stdout, stderr = result.stdout.encode("utf-8", "replace"), result.stderr.encode("utf-8", "replace")
        if len(stdout) + len(stderr) > _TEXT_IN_RESULT:
            await self._send_output("stdout", stdout)
            await self._send_output("stderr", stderr)
            shaped["stdout"] = shaped["stderr"] = ""
        content = _content(shaped["data"])
        if content:
            del shaped["data"]["content"]
        try:
            self._connection.send({**shaped, "id": self.id, "call": result.id}, content)
        except FrameError as error:
            self.fail("output_limit", f"the result cannot be sent: {error}", place=result.place.value, call=result.id)

    def fail(self, code: str, message: str, **more: Any) -> None:
        """Send an error instead of a result."""
        error = {"code": code, "message": message}
        with contextlib.suppress(ConnectionError):
            self._connection.send({"id": self.id, "success": False, "error": error, **more})


def _content(data: dict[str, Any] | None) -> bytes:
    """Return a result's content as bytes that decode to the very same text, or None."""
    text = None if data is None else data.get("content")
    if data is None or not isinstance(text, str):
        return b""
    if data.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return raw if base64.b64encode(raw).decode("ascii") == text else b""
