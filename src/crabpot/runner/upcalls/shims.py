"""The runner's socket for host commands: each program that connects becomes an upcall with the gateway."""

from __future__ import annotations

import json
import posix

from ..core.frames import MAX_QUESTION
from ..core.loop import READ, WRITE
from .outgoing import Listener
from .shim import ASK, END, ERRORS, INPUT, INPUT_END, OUTPUT, SIGNAL, SIGNALS, SOCKET, Messages, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    from ..core.loop import Loop
    from .outgoing import Upcall, Upcalls

_READ_SIZE = 64 << 10
_WAITING = 32
TOO_LONG = "its arguments are too long for one command"
_KINDS = {"stdout": OUTPUT, "stderr": ERRORS}


def listen(loop: Loop, upcalls: Upcalls) -> None:
    """Accept connections from now on. If that is impossible, the commands report that nobody listens."""
    import _socket  # noqa: PLC0415

    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        server.bind(SOCKET)
        server.listen(_WAITING)
    except OSError:
        server.close()
        return
    # The loop owns the descriptor; the object would close it when collected.
    loop.watch(loop.own(server.fileno()), READ, lambda: _accept(server, loop, upcalls))


def _accept(server: _socket.socket, loop: Loop, upcalls: Upcalls) -> None:
    try:
        fd, _ = server._accept()  # type: ignore[attr-defined]  # noqa: SLF001  what socket.accept() is made of
    except OSError:
        return
    posix.set_blocking(fd, False)
    posix.set_inheritable(fd, False)
    ShimConnection(loop, upcalls, fd)


class ShimConnection(Listener):
    """One program that waits for a host command to end."""

    def __init__(self, loop: Loop, upcalls: Upcalls, fd: int) -> None:
        self._loop = loop
        self._upcalls = upcalls
        self._upcall: Upcall | None = None
        self._messages = Messages()
        self._reader = loop.own(fd)
        # A second one, since the loop watches a descriptor for one thing at a time.
        self._writer = loop.own(posix.dup(fd))
        self._queue: list[tuple[memoryview, int]] = []
        self._ended = False
        self._open = True
        loop.watch(self._reader, READ, self._readable)

    # --- from the program -----------------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            data = posix.read(self._reader, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        try:
            for kind, content in self._messages.feed(data):
                self._take(kind, content)
        except ValueError:
            self._close()
            return
        if self._open and self._upcall is not None and not self._upcall.has_room:
            self._loop.unwatch(self._reader)

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == ASK and self._upcall is None:
            self._ask(content)
        elif self._upcall is None or self._upcall.dropped:
            return
        elif kind == INPUT:
            self._upcall.send(content)
        elif kind == INPUT_END:
            self._upcall.finish()
        elif kind == SIGNAL and content.decode("ascii") in SIGNALS:
            self._upcall.signal(content.decode("ascii"))

    def _ask(self, question: bytes) -> None:
        if self._upcalls.full:
            self.on_end({"error": {"code": "process_limit", "message": "too many host commands at once; try again"}})
        elif len(question) > MAX_QUESTION:
            self.on_end({"error": {"code": "invalid_arguments", "message": TOO_LONG}})
        else:
            self._upcall = self._upcalls.open("run", self, question)

    # --- from the gateway -----------------------------------------------------------------------------------------

    def on_data(self, data: bytes, stream: str) -> None:
        """Queue output of the command."""
        self._enqueue(message(_KINDS.get(stream, OUTPUT), data), len(data))

    def on_room(self) -> None:
        """Resume reading."""
        if self._open:
            self._loop.watch(self._reader, READ, self._readable)

    def on_end(self, reply: dict[str, Any]) -> None:
        """Queue the end of the command, after its output."""
        shown = {name: reply[name] for name in ("exit_code", "error") if reply.get(name) is not None}
        self._ended = True
        self._enqueue(message(END, json.dumps(shown).encode()), 0)

    def _enqueue(self, data: bytes, counted: int) -> None:
        if self._open:
            self._queue.append((memoryview(data), counted))
            self._write()

    def _write(self) -> None:
        while self._queue:
            piece, counted = self._queue[0]
            try:
                size = posix.write(self._writer, piece)
            except BlockingIOError:
                self._loop.watch(self._writer, WRITE, self._write)
                return
            except OSError:
                self._close()
                return
            if size < len(piece):
                self._queue[0] = (piece[size:], counted)
                continue
            del self._queue[0]
            if counted and self._upcall is not None:
                self._upcall.consumed(counted)
        self._loop.unwatch(self._writer)
        if self._ended:
            self._close()

    def _close(self) -> None:
        """Close, since the program has gone, or has all that it gets."""
        if not self._open:
            return
        self._open = False
        self._queue = []
        if self._upcall is not None and not self._ended:
            self._upcall.drop()
        for fd in (self._reader, self._writer):
            self._loop.unwatch(fd)
            self._loop.close_soon(fd)
