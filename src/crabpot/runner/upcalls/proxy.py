"""The sandbox's way to the gateway's proxy: accept on the loopback, and carry the bytes of each connection over.

Only the gateway interprets them; whatever runs inside could change how they are read here.
"""

from __future__ import annotations

# The C module beneath `socket`, which would import `selectors`, `enum` and more.
import _socket as socket

from ..core.loop import READ, WRITE
from .outgoing import Listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.server import Runner
    from .outgoing import Upcall

_LOOPBACK = "127.0.0.1"
_BACKLOG = 512
# Some upcalls are reserved for others: a flood of connections must not keep a command from the gateway.
_MOST = 224
_READ_SIZE = 64 << 10


class Proxy:
    """Listens for as long as the runner lives."""

    def __init__(self, runner: Runner, port: int) -> None:
        self._runner = runner
        self._count = 0
        self._socket: Any = socket.socket(
            socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((_LOOPBACK, port))
        self._socket.listen(_BACKLOG)
        self._fd = runner.loop.own(self._socket.fileno())
        runner.loop.watch(self._fd, READ, self._accept)

    def _accept(self) -> None:
        while self._count < _MOST and not self._runner.upcalls.full:
            try:
                fd, _ = self._socket._accept()  # noqa: SLF001  all that this class has for it
            except OSError:
                # The client has gone, or no descriptor is free: the next round accepts whoever still waits.
                return
            self._count += 1
            ProxiedConnection(socket.socket(fileno=fd), self._runner, self)
        # Those who wait stay in the kernel's queue until another connection has ended.
        self._runner.loop.unwatch(self._fd)

    def gone(self) -> None:
        """Note that a connection has ended."""
        self._count -= 1
        self._runner.loop.watch(self._fd, READ, self._accept)


class ProxiedConnection(Listener):
    """One program's connection, which lives as long as its upcall."""

    def __init__(self, sock: Any, runner: Runner, proxy: Proxy) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._loop = runner.loop
        self._proxy = proxy
        self._fd = runner.loop.own(sock.fileno())
        self._queue: list[memoryview] = []
        self._reads = True
        self._finishing = False
        self._ended = False
        self._closed = False
        self._mask = 0
        self._upcall: Upcall = runner.upcalls.open("connect", self)
        self._watch()

    def _watch(self) -> None:
        """Wait only for what can be done now: a hang-up would otherwise wake the loop without end."""
        if self._closed:
            return
        mask = (READ if self._reads and self._upcall.has_room else 0) | (WRITE if self._queue else 0)
        if mask == self._mask:
            return
        self._mask = mask
        if mask:
            self._loop.watch(self._fd, mask, self._ready)
        else:
            self._loop.unwatch(self._fd)

    def _ready(self) -> None:
        try:
            if self._queue:
                self._flush()
            if self._reads and not self._closed and self._upcall.has_room:
                self._read()
        except OSError:
            self._abort()
            return
        self._watch()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except BlockingIOError:
            return
        if data:
            self._upcall.send(data)
        else:
            self._reads = False
            self._upcall.finish()

    def _flush(self) -> None:
        while self._queue:
            try:
                sent = self._socket.send(self._queue[0])
            except BlockingIOError:
                return
            self._upcall.consumed(sent)
            if sent < len(self._queue[0]):
                self._queue[0] = self._queue[0][sent:]
                return
            del self._queue[0]
        if self._ended:
            self._close()
        elif self._finishing:
            self._finishing = False
            self._socket.shutdown(socket.SHUT_WR)

    # --- what the gateway sends -----------------------------------------------------------------------------------

    def on_data(self, data: bytes, stream: str) -> None:  # noqa: ARG002  there is only one
        """Queue data for the program."""
        self._queue.append(memoryview(data))
        self._try_flush()

    def on_eof(self, stream: str) -> None:  # noqa: ARG002
        """End the program's input."""
        self._finishing = True
        self._try_flush()

    def on_room(self) -> None:
        """Resume reading from the program."""
        self._watch()

    def on_end(self, reply: dict[str, Any]) -> None:  # noqa: ARG002  how it ended was said in the bytes
        """Close once everything has reached the program."""
        self._ended = True
        self._reads = False
        self._try_flush()

    def _try_flush(self) -> None:
        if self._closed:
            return
        try:
            self._flush()
        except OSError:
            self._abort()
            return
        self._watch()

    def _abort(self) -> None:
        """Give up, since the program is gone, whatever was on its way to it."""
        if not self._ended:
            self._upcall.drop()
        self._close()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._queue = []
        self._socket.detach()
        self._loop.close(self._fd)
        self._proxy.gone()
