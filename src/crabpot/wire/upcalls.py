"""Upcalls that a sandbox begins with the gateway, beside the calls: a host to connect to, or a host command.

Whatever runs inside can begin one and send anything in it. The wire tells who it is from, not a field.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.decide.scope import behind_it
from crabpot.runner.core.frames import MAX_QUESTION, MAX_UPCALLS, UPCALL_WINDOW, FrameError
from crabpot.wire.flow import Intake, Window, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from crabpot.wire.stream import FrameStream

    Answer = Callable[["Upcall"], Awaitable[None]]
    # What may be asked for, by kind; the handler knows the scope and the agent's settings from whoever wired it.
    Answers = Mapping[str, Answer]

NO_ANSWERS: Answers = {}

_FIELDS = frozenset({"op", "up", "kind", "bytes"})
_LONGEST_NAME = 16
# A person presses ctrl-c a few times; a program that does so faster than it is handled gets no further.
_MANY_SIGNALS = 64


class Upcall:
    """One question and what follows it. When the runner drops it, or is lost, its handler is cancelled."""

    def __init__(self, up: str, kind: str, question: bytes, stream: FrameStream) -> None:
        self.kind = kind
        self.question = question
        # Set before the cancellation, so that the handler can tell that nobody waits for the answer any more.
        self.dropped = asyncio.Event()
        self._up = up
        self._stream = stream
        self._window = Window()
        self._intake = Intake(lambda size: self._send({"op": "ack", "up": up, "n": size}), most=UPCALL_WINDOW)
        # One buffer, not a queue: single bytes would take a hundred times their size.
        self._buffer = bytearray()
        self._ended = self._discards = False
        self._arrived = asyncio.Event()
        self._signals: asyncio.Queue[str] = asyncio.Queue(_MANY_SIGNALS)
        self._reply: dict[str, Any] | None = None
        self._over = False

    async def read(self) -> bytes:
        """Return what has come, as soon as there is some; b"" at the end."""
        while not self._buffer:
            if self._ended:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        self._intake.took(len(data))
        return data

    async def write(self, data: bytes, stream: str = "stdout") -> None:
        """Send, no faster than it is taken inside."""
        for piece in pieces(data):
            await self._window.take(len(piece))
            await self._stream.writable.wait()
            self._send({"op": "data", "up": self._up, "stream": stream}, piece)

    def write_eof(self, stream: str = "stdout") -> None:
        """Announce that no more follows on a stream."""
        self._send({"op": "data", "up": self._up, "stream": stream, "eof": True})

    async def signals(self) -> AsyncIterator[str]:
        """Yield the names of signals (INT, TERM) as they come; the handler checks that a name exists."""
        while True:
            yield await self._signals.get()

    def reply(self, **fields: Any) -> None:
        """Set how it ended: `error` with `code` and `message`, `exit_code`. It is sent when the handler returns."""
        if self._reply is not None:
            raise RuntimeError("an upcall ends once")
        self._reply = {"success": "error" not in fields, **fields}

    # --- what the wire does -----------------------------------------------------------------------------------------

    def take(self, operation: str, header: dict[str, Any], payload: bytes) -> None:
        """Take a frame of it; FrameError on a violation of the protocol."""
        if operation == "ack":
            self._window.acknowledged(header.get("n"))
        elif operation == "signal":
            self._signalled(header.get("signal"))
        elif self._ended:
            raise FrameError("data after EOF")
        elif header.get("eof") is True:
            if payload:
                raise FrameError("an EOF with data")
            self._ended = True
            self._arrived.set()
        else:
            self._intake.arrived(len(payload))
            if not self._discards:
                self._buffer += payload
                self._arrived.set()

    def discard(self) -> None:
        """Drop what came, and what still comes: nobody reads it any more."""
        self._discards = True
        self._buffer.clear()

    def _signalled(self, name: Any) -> None:
        if type(name) is not str or not (name.isascii() and name.isalnum() and len(name) <= _LONGEST_NAME):
            raise FrameError("a signal without a name")
        if self._signals.full():
            raise FrameError("signals faster than they are handled")
        self._signals.put_nowait(name)

    def _send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        # A runner treats anything after a reply as a protocol violation.
        if not self._over:
            self._stream.send(header, payload)

    def ending(self) -> dict[str, Any]:
        """Return its last frame; nothing that a handler left running sends anything after it."""
        self._over = self._ended = True
        self._arrived.set()
        reply = self._reply or _failed("internal", "the gateway ended this without an answer")
        return {**reply, "op": "reply", "up": self._up}

    def fail(self, code: str, message: str) -> None:
        """Replace whatever the answer was by a failure."""
        self._reply = _failed(code, message)


class Upcalls:
    """The upcalls of one wire: a bounded number, which neither stop a call nor are stopped by one."""

    def __init__(self, stream: FrameStream) -> None:
        self.answers: Answers = NO_ANSWERS
        self._stream = stream
        self._live: dict[str, tuple[Upcall, asyncio.Task[None]]] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._live)

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Take a frame of any of them."""
        operation, up = header.get("op"), header.get("up")
        if operation == "upcall":
            self._begin(up, header, payload)
            return
        if operation not in ("data", "ack", "signal", "drop") or type(up) is not str:
            raise FrameError("a frame of unknown kind")
        found = self._live.get(up)
        if found is None:
            # What was sent before the runner knew of the end is no mistake; what never began is.
            if not (up.isascii() and up.isdigit() and len(up) <= len(str(self._last)) and 0 < int(up) <= self._last):
                raise FrameError("a frame for an unknown upcall")
            return
        upcall, task = found
        if upcall.dropped.is_set():
            return
        if operation == "drop":
            upcall.dropped.set()
            # Not at once: a task that has not run yet would never run, and so never end what was begun.
            self._stream.loop.call_soon(task.cancel)
            return
        upcall.take(operation, header, payload)

    def _begin(self, up: Any, header: dict[str, Any], payload: bytes) -> None:
        if up != str(self._last + 1):
            raise FrameError("an upcall out of turn")
        kind = header.get("kind")
        if type(kind) is not str or len(kind) > _LONGEST_NAME:
            raise FrameError("an upcall without a valid kind")
        if not header.keys() <= _FIELDS or len(payload) > MAX_QUESTION:
            raise FrameError("an upcall that begins with more than a question")
        if len(self._live) >= MAX_UPCALLS:
            raise FrameError(f"more than {MAX_UPCALLS} upcalls at once")
        self._last += 1
        upcall = Upcall(up, kind, payload, self._stream)
        # A spare was opened on nobody's behalf: what it is used for is charged to whoever uses it.
        with behind_it(self._stream.principal):
            self._live[up] = upcall, self._stream.loop.create_task(self._serve(up, upcall))

    async def _serve(self, up: str, upcall: Upcall) -> None:
        try:
            answer = self.answers.get(upcall.kind)
            if answer is None:
                upcall.fail("denied", "nothing of this kind is offered here")
            else:
                await answer(upcall)
        except asyncio.CancelledError:
            if not upcall.dropped.is_set():
                raise
        except Exception as error:  # noqa: BLE001  a fault of one answer must cost neither the wire nor the others
            upcall.fail("internal", "the gateway could not answer this")
            self._stream.loop.call_exception_handler({"message": "an upcall failed", "exception": error})
        upcall.discard()
        # It counts until its reply is sent: a runner that begins many and reads none gets no more of them.
        await self._stream.writable.wait()
        try:
            self._stream.send(upcall.ending())
        except FrameError as error:
            upcall.fail("internal", f"the answer does not fit into one frame: {error}")
            self._stream.send(upcall.ending())
        del self._live[up]

    def give_up(self) -> None:
        """Cancel every handler: nobody receives its answer any more."""
        for _, task in self._live.values():
            task.cancel()

    async def ended(self) -> None:
        """Wait until nothing of those that were given up is left."""
        await asyncio.gather(*(task for _, task in self._live.values()), return_exceptions=True)


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"success": False, "error": {"code": code, "message": message}}
