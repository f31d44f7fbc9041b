"""Upcalls that the runner begins with the gateway, over the same stream: bytes both ways, and one answer."""

from __future__ import annotations

from ..core.frames import ACK_EVERY, MAX_UPCALLS, UPCALL_WINDOW, WINDOW, FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.wire import Wire


class Listener:
    """The owner of an upcall. Each kind overrides the events that concern it."""

    def on_data(self, data: bytes, stream: str) -> None:
        """Take bytes from the gateway, which sends only as many more as Upcall.consumed() reported."""

    def on_eof(self, stream: str) -> None:
        """Handle the end of a stream."""

    def on_room(self) -> None:
        """Continue, now that there may be room again for what is to be sent."""

    def on_end(self, reply: dict[str, Any]) -> None:
        """Handle the reply that ends the upcall; not called after drop()."""


class Upcall:
    """Lives until the gateway's reply, which comes after drop() too."""

    def __init__(self, up: str, wire: Wire, listener: Listener) -> None:
        self.up = up
        self.listener = listener
        self._wire = wire
        self._queue: list[memoryview] = []
        self._unacknowledged = 0
        self._finishing = False
        self._received = 0
        self._consumed = 0
        self.dropped = False

    @property
    def has_room(self) -> bool:
        """Return whether more can be sent now without buffering it here."""
        return not self._queue and self._unacknowledged < UPCALL_WINDOW and not self._wire.congested

    def send(self, data: bytes) -> None:
        """Send as far as the window is open, and queue the rest in order."""
        if data:
            self._queue.append(memoryview(data))
            self._send_queue()

    def finish(self) -> None:
        """Announce, after what is still queued, that no more follows."""
        self._finishing = True
        self._send_queue()

    def signal(self, name: str) -> None:
        """Pass on a signal."""
        self._wire.send({"op": "signal", "up": self.up, "signal": name})

    def drop(self) -> None:
        """Give it up: nothing of it is wanted any more."""
        if not self.dropped:
            self.dropped = True
            self._queue = []
            self._wire.send({"op": "drop", "up": self.up})

    def consumed(self, size: int) -> None:
        """Note that the listener passed `size` bytes on."""
        self._consumed += size
        if self._consumed >= ACK_EVERY and not self.dropped:
            self._wire.send({"op": "ack", "up": self.up, "n": self._consumed})
            self._received -= self._consumed
            self._consumed = 0

    # --- what the gateway sends -----------------------------------------------------------------------------------

    def receive(self, header: dict[str, Any], payload: bytes) -> None:
        """Take bytes, or the end of a stream."""
        if self.dropped:
            return
        stream = header.get("stream")
        if type(stream) is not str:
            raise FrameError("data without a stream")
        if payload:
            self._received += len(payload)
            if self._received > WINDOW:
                raise FrameError("more data than the window allows")
            self.listener.on_data(payload, stream)
        if header.get("eof") is True:
            self.listener.on_eof(stream)

    def acknowledged(self, size: int) -> None:
        """Note that the gateway took `size` bytes."""
        self._unacknowledged = max(0, self._unacknowledged - size)
        self.resume()

    def resume(self) -> None:
        """Continue, now that there may be room again on the wire."""
        if self.dropped:
            return
        self._send_queue()
        if self.has_room:
            self.listener.on_room()

    def _send_queue(self) -> None:
        while self._queue and self._unacknowledged < UPCALL_WINDOW:
            data = self._queue[0]
            piece = data[: UPCALL_WINDOW - self._unacknowledged]
            self._wire.send({"op": "data", "up": self.up}, piece)
            self._unacknowledged += len(piece)
            if len(piece) == len(data):
                del self._queue[0]
            else:
                self._queue[0] = data[len(piece) :]
        if self._finishing and not self._queue:
            self._finishing = False
            self._wire.send({"op": "data", "up": self.up, "eof": True})


class Upcalls:
    """All of them. The gateway cuts off a runner that begins more at once than it may, so this one never does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._live: dict[str, Upcall] = {}
        self._last = 0

    @property
    def full(self) -> bool:
        """Return whether no further one can be begun for now."""
        return len(self._live) >= MAX_UPCALLS

    def open(self, kind: str, listener: Listener, question: bytes = b"") -> Upcall:
        """Begin one. Not while it is full, nor with a question of more than MAX_QUESTION bytes."""
        assert not self.full
        self._last += 1
        up = str(self._last)
        self._wire.send({"op": "upcall", "up": up, "kind": kind}, question)
        upcall = self._live[up] = Upcall(up, self._wire, listener)
        return upcall

    def data(self, header: dict[str, Any], payload: bytes) -> None:
        """Pass bytes to their upcall."""
        self._find(header).receive(header, payload)

    def ack(self, header: dict[str, Any], size: int) -> None:
        """Pass an acknowledgement to its upcall."""
        self._find(header).acknowledged(size)

    def reply(self, header: dict[str, Any], _payload: bytes) -> None:
        """End an upcall."""
        upcall = self._find(header)
        del self._live[upcall.up]
        if not upcall.dropped:
            upcall.dropped = True
            upcall.listener.on_end(header)

    def resume(self) -> None:
        """Continue every upcall, now that the wire takes more."""
        for upcall in list(self._live.values()):
            upcall.resume()

    def _find(self, header: dict[str, Any]) -> Upcall:
        """Return the upcall of a frame. The gateway sends nothing after its reply: a late frame is a mistake."""
        up = header.get("up")
        upcall = self._live.get(up) if type(up) is str else None
        if upcall is None:
            raise FrameError("a frame for no upcall")
        return upcall
