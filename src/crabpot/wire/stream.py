"""A stream of frames to the other side: greeting it, writing to it, and losing it. What arrives on it is hostile."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.runner.core.frames import (
    ACK_EVERY,
    MAX_LINE,
    MAX_PAYLOAD,
    WINDOW,
    FrameError,
    FrameReader,
    encode,
    encode_header,
)
from crabpot.scheduling.fair_loop import FairLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.wire.channel import Channel

PROTOCOL = 1

# After its own time limit a runner has this long to end the call before the gateway ends the sandbox.
GRACE_S = 5.0

_READ = 128 * 1024
# Below this size one copy is cheaper than a second write.
_JOIN_BELOW = 16 * 1024


class _Scratch(threading.local):
    """What the streams of one loop read into: allocating this much for every stream, or every frame, costs more."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ))


_SCRATCH = _Scratch()


class FrameStream(asyncio.BufferedProtocol):
    """Lives from the greeting until it is lost, which happens once, for a reason that can be reported."""

    @abstractmethod
    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Take one frame; FrameError loses the stream."""

    @abstractmethod
    def give_up(self, reason: str) -> None:
        """Notify whoever waits that nothing more comes."""

    # How long a line may be that is not an answer, and how an answer begins.
    short_line, answer_line = MAX_LINE, b""

    def __init__(self, channel: Channel, *, grace_s: float = GRACE_S) -> None:
        self.loop = asyncio.get_running_loop()
        self._fair = self.loop if isinstance(self.loop, FairLoop) else None
        self.grace_s = grace_s
        self.keep = 0
        # Who is charged for reading: whoever called last.
        self.principal: str | None = None
        # While that one has used more than its share, nothing is read, and for a while after it no answer is late.
        self.rests_until = 0.0
        self.lost: str | None = None
        self.ready: dict[str, Any] = {}
        self.writable = asyncio.Event()
        self.writable.set()
        self._channel = channel
        self._reader = FrameReader(self.short_line, self.answer_line)
        # All of it is taken before the loop reads again, for this stream or another.
        self._scratch = _SCRATCH.view
        self._transport: asyncio.Transport | None = None
        self._greeted: asyncio.Future[dict[str, Any]] = self.loop.create_future()

    @classmethod
    async def connect(
        cls, channel: Channel, hello: Mapping[str, Any], *, timeout_s: float, grace_s: float = GRACE_S
    ) -> Self:
        """Greet the other side and wait until it is ready."""
        made = cls(channel, grace_s=grace_s)
        # A result contains both streams up to the limit, and the mark of what was cut.
        made.keep = 2 * hello["limits"]["output"] + ACK_EVERY
        try:
            async with asyncio.timeout(timeout_s):
                await made.loop.create_connection(lambda: made, sock=channel.sock)
                if channel.ready is None:
                    made.send(dict(hello))
                else:
                    made._greeted.set_result(channel.ready)
                made.ready = await made._greeted
            if type(made.ready.get("protocol")) is not int or made.ready["protocol"] != PROTOCOL:
                made.lose("the runner has another protocol version")
        except TimeoutError:
            made.lose(f"the runner did not answer within {timeout_s:g} s")
        except (FrameError, OSError) as error:
            made.lose(f"it could not be greeted: {error}")
        except SandboxLost:
            pass
        except BaseException:
            made.lose("its opening was given up")
            raise
        if made.lost is not None:
            raise SandboxUnavailable(f"the sandbox did not start: {made.lost}")
        return made

    def lose(self, reason: str) -> None:
        """Give up the other side: nothing more is read from it or sent to it."""
        if self.lost is not None:
            return
        self.lost = reason
        self.writable.set()
        if not self._greeted.done():
            fail(self._greeted, reason)
        self.give_up(reason)
        if self._transport is not None:
            self._transport.abort()

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Send one frame; FrameError if it is too large to be one."""
        if len(payload) < _JOIN_BELOW:
            self.write(encode(header, payload))
            return
        self.write(encode_header(header, len(payload)))
        # By itself: joined to its line, all of it would be copied.
        self.write(payload)

    def write(self, frame: bytes | memoryview) -> None:
        """Send an encoded frame, or a part of one."""
        if self.lost is None and self._transport is not None:
            self._transport.write(frame)

    # --- what asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with suppress(OSError):
            # A whole window, so that the kernel takes each piece at once, and nothing of it is copied to wait here.
            self._channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WINDOW)
        transport.set_write_buffer_limits(high=4 * MAX_PAYLOAD)
        if self.lost is not None:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the other side, or of its sandbox."""
        self.lose(f"its stream ended{f': {exc}' if exc else ''}")

    def pause_writing(self) -> None:
        """Note that the kernel takes no more for now."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """Note that the kernel takes more again."""
        self.writable.set()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer to read into."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Take frames, and nothing after the first violation of the protocol."""
        if self.lost is not None:
            return
        began = 0.0 if self._fair is None else time.thread_time()
        data = self._scratch[:nbytes]
        try:
            plain = self._channel.decode(bytes(data)) if self._channel.decode else data
            for header, payload in self._reader.feed(plain):
                if not self._greeted.done() and header.get("op") == "ready":
                    self._greeted.set_result(header)
                else:
                    self.take(header, payload)
        except FrameError as error:
            self.lose(f"it broke the protocol: {error}")
        if self._fair is not None and self.principal is not None:
            self._charge(self._fair, self.principal, time.thread_time() - began)

    def _charge(self, loop: FairLoop, principal: str, seconds: float) -> None:
        """Charge a principal for what was read; one that keeps the loop busy is read from in its turn."""
        if loop.charge(principal, seconds, self._read_on) and self._transport is not None:
            self.rests_until = math.inf
            self._transport.pause_reading()

    def _read_on(self) -> None:
        self.rests_until = self.loop.time() + self.grace_s
        if self.lost is None and self._transport is not None:
            self._transport.resume_reading()


def fail(future: asyncio.Future[Any], reason: str) -> None:
    """End a wait with SandboxLost."""
    future.set_exception(SandboxLost(reason))
    # Whoever waits gets it; retrieving it here keeps asyncio from logging one that nobody waits for.
    future.exception()
