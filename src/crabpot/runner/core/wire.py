"""The runner's end of the wire: frames in, frames out, and how much output is still waiting."""

from __future__ import annotations

import posix

from .frames import FrameError, FrameReader, encode_header, parse
from .loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .loop import Loop

# Above the first figure nothing more is read, from children or the gateway, until the backlog is below the second.
_CONGESTED = 4 << 20
_RELIEVED = 1 << 20
_READ_SIZE = 256 << 10
# Below this size one copy is cheaper than a second piece for the kernel.
_JOIN_BELOW = 16 << 10
# How the line of a piece of input begins, and how long it is at most: what is longer is read as any other frame.
_INPUT, _LONGEST_INPUT = b'{"op":"input"', 256


class InputFrames(FrameReader):
    """Passes input on as it comes, as views that are good until the next read: nobody needs it whole.

    A file is then written from where the kernel put it, without a copy.
    """

    _input: dict[str, Any] | None = None
    _left = 0

    @property
    def partial(self) -> bool:
        """Return whether an incomplete frame has begun."""
        return self._left > 0 or super().partial

    def feed(self, data: bytes | memoryview) -> list[tuple[dict[str, Any], bytes]]:
        """Return the frames that `data` completes, and the input that is in it, in order."""
        if not self._left and data[: len(_INPUT)] != _INPUT:
            return super().feed(data)
        return self._pass_on(data)

    def _pass_on(self, data: bytes | memoryview) -> list[tuple[dict[str, Any], bytes]]:
        frames: list[Any] = []
        while data:
            if self._left:
                piece = data[: self._left]
                self._left -= len(piece)
                frames.append((self._input, piece))
                data = data[len(piece) :]
            elif self._broken or self.partial or bytes(data[: len(_INPUT)]) != _INPUT:
                return frames + super().feed(data)
            else:
                end = bytes(data[:_LONGEST_INPUT]).find(b"\n") + 1
                self._broken = True
                header, size = parse(bytes(data[: end - 1])) if end else ({"eof": True}, 0)
                self._broken = False
                # Its end is told after all of it.
                if "eof" in header:
                    return frames + super().feed(data)
                self._input, self._left = header, size
                data = data[end:]
        return frames


class Wire:
    """A byte stream to the gateway, as two descriptors. Its end, or a broken frame, ends the runner."""

    def __init__(self, loop: Loop, reader: int, writer: int, handle: Callable[[dict[str, Any], bytes], None]) -> None:
        self._loop = loop
        self._reader = reader
        self._writer = loop.own(writer)
        self.handle = handle
        self._frames = InputFrames()
        # Reused: allocating this much for every short frame costs more than the rest of reading it.
        self._scratch = memoryview(bytearray(_READ_SIZE))
        self._queue: list[memoryview] = []
        self._backlog = 0
        self.written = 0
        self.congested = False
        self.on_room: Callable[[], None] = lambda: None
        self.on_drained: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = loop.stop
        self.lost_because: str | None = None
        self._held = False
        posix.set_blocking(reader, False)
        posix.set_blocking(writer, False)
        loop.watch(reader, READ, self._readable)

    @property
    def backlog(self) -> int:
        """Return how many bytes wait for the other side to read on."""
        return self._backlog

    def lose(self, reason: str) -> None:
        """Give up the stream, once; unless it is one of many, the loop ends with this round."""
        if self.lost_because is None:
            self.lost_because = reason
            self.on_lost()

    def hold(self) -> None:
        """Read nothing more until `release`."""
        self._held = True
        self._loop.unwatch(self._reader)

    def release(self) -> None:
        """Resume reading."""
        self._held = False
        if not self.congested and self.lost_because is None:
            self._loop.watch(self._reader, READ, self._readable)

    def ended(self) -> None:
        """Handle the other side's end of stream."""
        self.lose("")

    def broken(self, error: FrameError) -> None:
        """Handle a broken frame."""
        self.lose("broken frame: %s" % error)

    def _readable(self) -> None:
        try:
            size = posix.readv(self._reader, (self._scratch,))
        except BlockingIOError:
            return
        except ConnectionError:
            size = 0
        if not size:
            self.ended()
            return
        try:
            for header, payload in self._frames.feed(self._scratch[:size]):
                self.handle(header, payload)
        except FrameError as error:
            self.broken(error)

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Send one frame, or queue it until the gateway reads on; FrameError if it is too large."""
        if self.lost_because is not None:
            return
        size = len(payload)
        line = encode_header(header, size)
        pieces = [line + payload] if size < _JOIN_BELOW else [line, payload]
        if self._queue:
            self._enqueue(pieces, 0)
            return
        try:
            sent = posix.writev(self._writer, pieces)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.lose("")
            return
        if sent < len(line) + size:
            self._enqueue(pieces, sent)

    def _enqueue(self, pieces: Sequence[bytes | memoryview], sent: int) -> None:
        for piece in pieces:
            if sent >= len(piece):
                sent -= len(piece)
                continue
            rest = memoryview(piece)[sent:]
            sent = 0
            self._queue.append(rest)
            self._backlog += len(rest)
        if self._queue:
            self._loop.watch(self._writer, WRITE, self._writable)
            if self._backlog > _CONGESTED and not self.congested:
                self.congested = True
                self._loop.unwatch(self._reader)

    def _writable(self) -> None:
        batch = self._queue[:16]
        try:
            sent = posix.writev(self._writer, batch)
        except BlockingIOError:
            return
        except OSError:
            self.lose("")
            return
        self._backlog -= sent
        self.written += sent
        done = 0
        for piece in batch:
            if sent < len(piece):
                self._queue[done] = piece[sent:]
                break
            sent -= len(piece)
            done += 1
        del self._queue[:done]
        if not self._queue:
            self._loop.unwatch(self._writer)
            self.on_drained()
        if self.congested and self._backlog < _RELIEVED:
            self.congested = False
            if not self._held:
                self._loop.watch(self._reader, READ, self._readable)
            self.on_room()
