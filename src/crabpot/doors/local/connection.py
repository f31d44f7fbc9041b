"""One client of a serving gateway, and its calls.

Clients speak the frames of the wire, so that streaming, flow control and cancellation are the same on both hops.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crabpot.decide.scope import PRINCIPAL, called_with, principal_of
from crabpot.decide.sessions import LONGEST, parse
from crabpot.doors.local.questions import Asker
from crabpot.doors.sdk import imported
from crabpot.errors import CrabpotError, SessionError
from crabpot.runner.core.frames import FrameError, FrameReader, encode
from crabpot.sandboxes.callers import checked
from crabpot.sandboxes.streams import Streams
from crabpot.wire.flow import Intake, Window, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.doors.local.server import Inquiries
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.sandboxes.remarks import Remark
    from crabpot.wire.in_flight import Sink

_READ = 256 * 1024
# More text than this is sent before the result: escaped as JSON it may grow sixfold, beyond a line.
_TEXT_IN_RESULT = 128 * 1024
_MOST_CALLS = 256
_LONGEST_ID = 64
# Of what a client says of itself: it must be this gateway's own.
_IDENTITY = ("config", "code")


def load_mcp() -> tuple[Any, Any]:
    """Import what an MCP client would wait for."""
    from crabpot.doors.mcp import server, stdio  # noqa: PLC0415

    return server, stdio


class Connection:
    """One client; when it disconnects, its calls are cancelled."""

    def __init__(
        self,
        gateway: Gateway,
        inquiries: Inquiries,
        ready: Mapping[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._gateway = gateway
        self._inquiries = inquiries
        self._ready = dict(ready)
        # What a caller of a lingering gateway brings, by name; None at any other gateway.
        self._brings = None if "brings" not in ready else frozenset(ready["brings"])
        self._kin = True
        self._reader = reader
        self._writer = writer
        self._calls: dict[str, _ClientCall] = {}
        self._frames = FrameReader()
        self.asker = Asker(self.send)

    async def run(self) -> None:
        """Serve until the client disconnects or breaks the protocol."""
        try:
            while data := await self._reader.read(_READ):
                for header, payload in self._frames.feed(data):
                    self._take(header, payload)
                    if "op" not in header:
                        # A call: this client's next one begins when every other client has had its turn.
                        await asyncio.sleep(0)
                # Nothing more is read from a client that reads no answers: they would pile up in our memory.
                await self._writer.drain()
        except (FrameError, ConnectionError):
            pass
        finally:
            tasks = [call.task for call in self._calls.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        kind, call_id = header.get("op"), header.get("id")
        if kind == "hello":
            known = [name for name in _IDENTITY if name in self._ready]
            self._kin = all(header.get(name, self._ready[name]) == self._ready[name] for name in known)
            self.send(self._ready)
            return
        if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_ID:
            raise FrameError("a frame without an id")
        if kind == "answer":
            self.asker.take(header)
            return
        call = self._calls.get(call_id)
        if kind is None:
            if call is not None or len(self._calls) >= _MOST_CALLS:
                raise FrameError("an id that is in use, or too many calls at once")
            self._start(call_id, header)
        elif call is not None:
            call.take(kind, header, payload)

    def _start(self, call_id: str, header: dict[str, Any]) -> None:
        call = _ClientCall(self, call_id, header)
        self._calls[call_id] = call
        # The call is charged from its first step on, and what is read next to whoever this client called for last.
        PRINCIPAL.set(self._principal(header))
        call.task = asyncio.create_task(self._run(call, header))
        call.task.add_done_callback(lambda _: self._calls.pop(call_id, None))

    def _principal(self, header: dict[str, Any]) -> str | None:
        """Return who is behind a call, or None for what the gateway's own user inquires."""
        session = header.get("session")
        if "inquiry" in header or not isinstance(session, str):
            return None
        try:
            return principal_of(parse(session, default_agent=self._gateway.settings.default_agent).agent)
        except SessionError:
            return None

    async def _run(self, call: _ClientCall, header: dict[str, Any]) -> None:
        try:
            await self._answer(call, header)
        except SessionError as error:
            call.fail("invalid_arguments", str(error))
        except CrabpotError as error:
            call.fail("internal", str(error))
        except ConnectionError:
            pass  # The client disconnected while it was being answered.
        except asyncio.CancelledError:
            call.fail("cancelled", "the call was cancelled")
        except Exception as error:  # noqa: BLE001  a bug in one call must not leave its client waiting for ever
            call.fail("internal", f"{type(error).__name__}: {error}")

    async def _answer(self, call: _ClientCall, header: dict[str, Any]) -> None:
        args, session, sender = header.get("args"), header.get("session"), header.get("sender")
        args = args if isinstance(args, dict) else {}
        if "inquiry" in header:
            answer = await self._inquiries(str(header["inquiry"]), args)
            self.send({"id": call.id, "success": True, "data": {"answer": answer}})
            return
        if not self._kin:
            raise CrabpotError("this gateway has another configuration or another version than its client")
        if not isinstance(session, str):
            raise SessionError("a session key is text")
        if sender is not None and (not isinstance(sender, str) or len(sender) > LONGEST):
            raise SessionError(f"a sender is text of at most {LONGEST} characters")
        if "mcp" in header:
            with called_with(self._variables(header)):
                await self._speak_mcp(call, session, header["mcp"])
            self.send({"id": call.id, "success": True, "exit_code": 0})
            return
        # What is not plainly allowed is kept off the host.
        host_allowed = header.get("host_allowed", True) is True
        with called_with(self._variables(header)):
            result = await self._gateway.call(
                session,
                str(header.get("tool")),
                args,
                sender=sender,
                streams=call.streams(),
                host_allowed=host_allowed,
            )
        await call.answer(result)

    def _variables(self, header: dict[str, Any]) -> dict[str, str] | None:
        return None if self._brings is None else checked(header.get("environ"), self._brings)

    async def _speak_mcp(self, call: _ClientCall, session: str, asked: Any) -> None:
        """Serve an MCP client whose messages a thin client passes on, until the end of its input."""
        server, stdio = await imported(load_mcp)
        asked = asked if isinstance(asked, dict) else {}
        sender = asked.get("sender")
        if sender is not None and (not isinstance(sender, str) or len(sender) > LONGEST):
            raise SessionError(f"a sender is text of at most {LONGEST} characters")
        elicits, structured = (asked.get(name) is True for name in ("elicits", "structured"))
        caller = server.Caller(session=session, sender=sender, name="stdio", elicits=elicits, structured=structured)
        streams = call.streams()
        if streams.source is None or streams.sink is None:
            raise FrameError("MCP needs both streams")
        await stdio.talk(self._gateway, caller, streams.source, _Messages(streams.sink))

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Send one frame; it is dropped if the client is gone."""
        if not self._writer.is_closing():
            self._writer.write(encode(header, payload))

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent."""
        await self._writer.drain()


class _ClientCall:
    """One call of a client, and its flow in both directions."""

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


class _Messages:
    """The messages of an MCP server, on their way to its client."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def write(self, text: str) -> None:
        """Send some text at the client's pace."""
        await self._sink("stdout", text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""
