"""The gateway's end of the wire. What arrives is hostile: whatever is not to the letter loses the sandbox."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from crabpot.backends.reply import BadReply, Reply, check
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.runner.frames import ACK_EVERY, MAX_PAYLOAD, WINDOW, FrameError, FrameReader, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from crabpot.backends.base import Channel

    Sink = Callable[[str, bytes], Awaitable[None]]

Answer = TypeVar("Answer")

PROTOCOL = 1

# After its own time limit a runner has this long to end the call before the gateway ends the sandbox.
GRACE_S = 5.0

_STREAMS = ("stdout", "stderr", "content")
_CHUNK = 256 * 1024


class Wire(asyncio.Protocol, Generic[Answer]):
    """A stream to one runner: many calls in flight, each answered once."""

    @abstractmethod
    def read_answer(self, header: dict[str, Any], payload: bytes, stdout: bytes, stderr: bytes) -> Answer:
        """Read an answer; what came ahead of it in frames of its own is given beside it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[str, _Call[Answer]] = {}
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._count = 0
        self.keep_at_most = 0
        self.lost: str | None = None
        self.gone = asyncio.Event()

    @classmethod
    async def connect(cls, channel: Channel, hello: Mapping[str, Any], *, timeout_s: float) -> Self:
        """Greet the runner and wait until it is ready."""
        wire = cls(channel)
        await asyncio.get_running_loop().create_connection(lambda: wire, sock=channel.sock)
        # A result holds both streams up to the limit, and the mark of what was cut.
        wire.keep_at_most = 2 * hello["limits"]["output"] + ACK_EVERY
        wire._send(dict(hello))
        try:
            ready = await asyncio.wait_for(wire._ready, timeout_s)
        except TimeoutError:
            wire.lose(f"the runner did not answer within {timeout_s:g} s")
            raise SandboxUnavailable(f"the sandbox did not start: {wire.lost}") from None
        except SandboxLost as error:
            raise SandboxUnavailable(f"the sandbox did not start: {error}") from None
        if ready.get("protocol") != PROTOCOL:
            wire.lose("the runner speaks another protocol")
            raise SandboxUnavailable(f"the sandbox did not start: {wire.lost}")
        return wire

    @property
    def busy(self) -> int:
        """How many calls are in flight."""
        return len(self._calls)

    async def call(  # noqa: PLR0913  a call's three streams are optional and independent
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        timeout_s: float,
        source: AsyncIterator[bytes] | None = None,
        sink: Sink | None = None,
        resizes: asyncio.Queue[tuple[int, int]] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Run one call. `source` is its input, `sink` takes its output while it runs; `more` goes into its header."""
        if self.lost is not None:
            raise SandboxLost(self.lost)
        self._count += 1
        call = _Call(self, str(self._count), sink)
        header = {**(more or {}), "id": call.id, "tool": tool, "args": args, "timeout": timeout_s}
        if sink is not None:
            header["stream"] = True
        if source is not None:
            header["input"] = True
        try:
            frame = encode(header)
        except FrameError as error:
            return self.read_answer(_too_large(error), b"", b"", b"")
        self._calls[call.id] = call
        self._write(frame)
        if source is None and sink is None and resizes is None:
            return await self._answer(call, timeout_s)
        return await self._answer_streamed(call, timeout_s, source, resizes)

    async def _answer(self, call: _Call[Answer], timeout_s: float) -> Answer:
        try:
            async with asyncio.timeout(timeout_s + GRACE_S):
                return await asyncio.shield(call.answer)
        except TimeoutError:
            self.lose(f"the runner did not end a call {GRACE_S:g} s after its time limit of {timeout_s:g} s")
            raise SandboxLost(str(self.lost)) from None
        except asyncio.CancelledError:
            await self._cancel(call)
            raise

    async def _cancel(self, call: _Call[Answer]) -> None:
        """Tell the runner, and wait for the call's end: a caller that has gone must leave nothing running."""
        if call.answer.done():
            return
        self._send({"op": "cancel", "id": call.id})
        try:
            async with asyncio.timeout(GRACE_S):
                await asyncio.shield(call.answer)
        except TimeoutError:
            self.lose("the runner did not end a cancelled call")
        except SandboxLost:
            pass

    async def _answer_streamed(
        self,
        call: _Call[Answer],
        timeout_s: float,
        source: AsyncIterator[bytes] | None,
        resizes: asyncio.Queue[tuple[int, int]] | None,
    ) -> Answer:
        try:
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(call.pump())]
                if resizes is not None:
                    helpers.append(tasks.create_task(self._resize(call, resizes)))
                if source is not None:
                    helpers.append(tasks.create_task(self._feed(call, source)))
                try:
                    reply = await self._answer(call, timeout_s)
                    call.end_output()
                    await helpers[0]
                finally:
                    for helper in helpers:
                        helper.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return reply

    async def _feed(self, call: _Call[Answer], source: AsyncIterator[bytes]) -> None:
        """Send a call's input no faster than the runner takes it."""
        async for data in source:
            view = memoryview(data)
            for start in range(0, len(view), _CHUNK):
                piece = view[start : start + _CHUNK]
                await call.room_for_input(len(piece))
                await self._writable.wait()
                self._send({"op": "input", "id": call.id}, bytes(piece))
        self._send({"op": "input", "id": call.id, "eof": True})

    async def _resize(self, call: _Call[Answer], resizes: asyncio.Queue[tuple[int, int]]) -> None:
        while True:
            rows, cols = await resizes.get()
            self._send({"op": "resize", "id": call.id, "rows": rows, "cols": cols})

    def acknowledge(self, call_id: str, size: int) -> None:
        """Let the runner send more of a call's output."""
        self._send({"op": "ack", "id": call_id, "n": size})

    def lose(self, reason: str) -> None:
        """Give the sandbox up: every call in it ends, and nothing more is read from it."""
        if self.lost is not None:
            return
        self.lost = reason
        self.gone.set()
        self._writable.set()
        calls, self._calls = self._calls, {}
        if not self._ready.done():
            _fail(self._ready, reason)
        for call in calls.values():
            if not call.answer.done():
                _fail(call.answer, reason)
        if self._transport is not None:
            self._transport.abort()

    # --- what asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the stream."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=4 * MAX_PAYLOAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """The runner ended, or its sandbox did."""
        self.lose(f"its stream ended{f': {exc}' if exc else ''}")

    def pause_writing(self) -> None:
        """The kernel takes no more for now."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Take frames. The first thing on the stream that is not to the letter is the last that is read."""
        if self.lost is not None:
            return
        try:
            plain = self._channel.decode(data) if self._channel.decode else data
            for header, payload in self._reader.feed(plain):
                self._take(header, payload)
        except (FrameError, BadReply) as error:
            self.lose(f"it broke the wire: {error}")

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        kind = header.get("op")
        if kind == "ready" and not self._ready.done():
            self._ready.set_result(header)
            return
        call = self._calls.get(header.get("id", "")) if type(header.get("id")) is str else None
        if call is None:
            raise BadReply("a frame for no call that is in flight")
        if kind is None:
            reply = call.finish(header, payload)
            del self._calls[call.id]
            if not call.answer.done():
                call.answer.set_result(reply)
        elif kind == "output":
            call.receive(header.get("stream"), payload)
        elif kind == "ack":
            call.acknowledged(header.get("n"))
        else:
            raise BadReply("a frame of no known kind")

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        self._write(encode(header, payload))

    def _write(self, frame: bytes) -> None:
        if self.lost is None and self._transport is not None:
            self._transport.write(frame)


class RunnerWire(Wire[Reply]):
    """The wire to a runner, whose every answer is checked."""

    def read_answer(self, header: dict[str, Any], payload: bytes, stdout: bytes, stderr: bytes) -> Reply:
        """Check an answer field by field."""
        return check(header, payload, stdout, stderr)


def _fail(future: asyncio.Future[Any], reason: str) -> None:
    future.set_exception(SandboxLost(reason))
    # Whoever waits gets it; asking once keeps asyncio from logging one that nobody waits for.
    future.exception()


def _too_large(error: FrameError) -> dict[str, Any]:
    message = f"the arguments are too large for one frame: {error}"
    return {"success": False, "error": {"code": "invalid_arguments", "message": message}}


class _Call(Generic[Answer]):
    """One call in flight: what it may still send, and what it has."""

    def __init__(self, wire: Wire[Answer], call_id: str, sink: Sink | None) -> None:
        self.id = call_id
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._wire = wire
        self._sink = sink
        self._kept: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._queue: deque[tuple[str, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._ended = False
        self._unacknowledged = 0
        self._consumed = 0
        self._input_room = WINDOW
        self._input_moved = asyncio.Event()

    def receive(self, stream: Any, data: bytes) -> None:
        """Take output. A runner that sends more than it was allowed could fill the gateway's memory."""
        if stream not in _STREAMS:
            raise BadReply("output of no known stream")
        self._unacknowledged += len(data)
        if self._unacknowledged > WINDOW:
            raise BadReply("more output than was allowed")
        if self._sink is not None:
            self._queue.append((stream, data))
            self._arrived.set()
            return
        if stream == "content":
            raise BadReply("content that was not asked for")
        self._kept[stream] += data
        if sum(map(len, self._kept.values())) > self._wire.keep_at_most:
            raise BadReply("more output than the limit lets a result have")
        self._took(len(data))

    def _took(self, size: int) -> None:
        self._consumed += size
        if self._consumed >= ACK_EVERY:
            self._wire.acknowledge(self.id, self._consumed)
            self._unacknowledged -= self._consumed
            self._consumed = 0

    async def pump(self) -> None:
        """Hand output on at the pace of whoever takes it."""
        if self._sink is None:
            return
        while True:
            while self._queue:
                stream, data = self._queue.popleft()
                await self._sink(stream, data)
                self._took(len(data))
            if self._ended:
                return
            self._arrived.clear()
            await self._arrived.wait()

    def end_output(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._arrived.set()

    def acknowledged(self, size: Any) -> None:
        """The runner took some of the input."""
        if type(size) is not int or not 0 < size <= WINDOW - self._input_room:
            raise BadReply("an acknowledgement of input that was not sent")
        self._input_room += size
        self._input_moved.set()

    async def room_for_input(self, size: int) -> None:
        """Wait until the runner may be sent this much."""
        while self._input_room < size:
            self._input_moved.clear()
            await self._input_moved.wait()
        self._input_room -= size

    def finish(self, header: dict[str, Any], payload: bytes) -> Answer:
        """Read the answer."""
        return self._wire.read_answer(header, payload, bytes(self._kept["stdout"]), bytes(self._kept["stderr"]))
