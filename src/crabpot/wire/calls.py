"""Calls over a stream of frames: many in flight, answered once, streamed, cancelled, never waited for in vain."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crabpot.errors import SandboxLost
from crabpot.runner.core.frames import FrameError, encode_header
from crabpot.wire.flow import Window, pieces
from crabpot.wire.in_flight import InFlight
from crabpot.wire.replies import Reply, check_runner, unsendable
from crabpot.wire.stream import GRACE_S, FrameStream, fail
from crabpot.wire.upcalls import Upcalls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from crabpot.wire.channel import Channel
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Output

    Source = AsyncIterator[bytes]
    Resizes = asyncio.Queue[tuple[int, int]]
    Signals = AsyncIterator[str]

Answer = TypeVar("Answer")

# No terminal has more rows or columns for a runner, whatever a window manager says.
LONGEST_SIDE = 1000


class Wire(FrameStream, Generic[Answer]):
    """The calling end of a stream."""

    @abstractmethod
    def read_answer(self, header: dict[str, Any], payload: bytes, stdout: Output, stderr: Output) -> Answer:
        """Read an answer; output that came ahead of it in frames of its own is passed beside it."""

    def __init__(self, channel: Channel, *, grace_s: float = GRACE_S) -> None:
        super().__init__(channel, grace_s=grace_s)
        self._calls: dict[str, InFlight[Answer]] = {}
        self._count = 0
        self._still_until = 0.0
        self._holds = False
        self._quiet: asyncio.Event | None = None
        # One for all calls: most end long before they are due, and a timer for each would cost as much as its frame.
        self._timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> int:
        """Return how many calls are in flight."""
        return len(self._calls)

    async def quiet(self) -> None:
        """Wait until no call is in flight."""
        while self._calls:
            self._quiet = self._quiet or asyncio.Event()
            await self._quiet.wait()

    def freeze(self) -> None:
        """Stop all deadlines: the other side is frozen, so no answer is late until it is thawed."""
        self._still_until = math.inf

    def thaw(self) -> None:
        """Restart the grace period for what the other side should have ended meanwhile."""
        self._still_until = self.loop.time() + self.grace_s

    def hold(self) -> None:
        """Let no time pass for the calls in flight, nor for new ones, until `resume` or no spare time is left."""
        self._holds = True
        for call in self._calls.values():
            self._hold(call)

    def resume(self) -> None:
        """Let time pass again."""
        self._holds = False
        for call in self._calls.values():
            self._resume(call)

    def _hold(self, call: InFlight[Answer]) -> None:
        if call.spare_s <= 0 or call.held_at is not None or self.lost is not None:
            return
        call.held_at = self.loop.time()
        call.left_s = call.due - call.held_at
        self._look_at(call, call.held_at + call.spare_s)
        self.send({"op": "hold", "id": call.id})

    def _resume(self, call: InFlight[Answer]) -> None:
        if call.held_at is None or self.lost is not None:
            return
        now = self.loop.time()
        call.spare_s -= now - call.held_at
        call.held_at = None
        self._look_at(call, now + call.left_s)
        self.send({"op": "resume", "id": call.id})

    async def call(  # noqa: PLR0913  a call's three streams are optional and independent
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        timeout_s: float,
        source: Source | None = None,
        sink: Sink | None = None,
        resizes: Resizes | None = None,
        signals: Signals | None = None,
        more: Mapping[str, Any] | None = None,
        spare_s: float = 0.0,
    ) -> Answer:
        """Run one call. `source` is its input, `sink` takes its output while it runs; `more` goes into its header.

        `spare_s` is for how long its clock may be held.
        """
        # The frames of all calls to a runner that reads nothing would pile up in our memory.
        if not self.writable.is_set():
            await self.writable.wait()
        if self.lost is not None:
            raise SandboxLost(self.lost)
        self._count += 1
        header: dict[str, Any] = {"id": str(self._count), "tool": tool, "args": args, "timeout": timeout_s}
        if more is not None:
            header.update(more)
        if sink is not None:
            header["stream"] = True
        if source is not None:
            header["input"] = True
        try:
            frame = encode_header(header)
        except FrameError as error:
            return self.read_answer(unsendable(error), b"", b"", b"")
        # Before anything else: the other side works while we write down that it does.
        self.write(frame)
        call: InFlight[Answer] = InFlight(header["id"], sink, keep=self.keep, acknowledge=self._acknowledge)
        call.answer = self.loop.create_future()
        call.timeout_s, call.spare_s = timeout_s, spare_s
        self._calls[call.id] = call
        self._look_at(call, self.loop.time() + timeout_s + self.grace_s)
        if self._holds:
            self._hold(call)
        if source is not None or sink is not None or resizes is not None or signals is not None:
            pumps = [
                *([] if resizes is None else [self._resize(call, resizes)]),
                *([] if signals is None else [self._signal(call, signals)]),
            ]
            return await self._answer_streamed(call, source, sink, pumps)
        try:
            return await call.answer
        except asyncio.CancelledError:
            await self._cancel(call)
            raise

    async def _cancel(self, call: InFlight[Answer]) -> None:
        """Cancel the call on the runner, and wait for its end: a caller that has gone must leave nothing running."""
        if call.id not in self._calls:
            return
        call.answer = self.loop.create_future()
        call.timeout_s, call.held_at, call.spare_s = None, None, 0.0
        self._look_at(call, self.loop.time() + self.grace_s)
        call.discard()
        self.send({"op": "cancel", "id": call.id})
        with suppress(SandboxLost):
            await call.answer

    def _look_at(self, call: InFlight[Answer], due: float) -> None:
        """Look at a call once it is due."""
        call.due = due
        if self._timer is None or due < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            # In nobody's context: it outlives the call that set it, and a caller's variables are not to be kept.
            self._timer = self.loop.call_at(due, self._look, context=Context())

    def _look(self) -> None:
        self._timer = None
        now = self.loop.time()
        for call in list(self._calls.values()):
            if self.lost is not None:
                return
            if call.due > now:
                self._look_at(call, call.due)
            elif call.held_at is not None:
                self._resume(call)
            else:
                self._overdue(call, now)

    def _overdue(self, call: InFlight[Answer], now: float) -> None:
        if call.behind or now < max(self._still_until, self.rests_until):
            # Its end may wait behind what our own side is slow to take; and a frozen sandbox ends nothing.
            self._look_at(call, now + self.grace_s)
            return
        since = "it was cancelled" if call.timeout_s is None else f"its time limit of {call.timeout_s:g} s"
        self.lose(f"the runner did not end a call within {self.grace_s:g} s after {since}")

    async def _answer_streamed(
        self, call: InFlight[Answer], source: Source | None, sink: Sink | None, pumps: list[Coroutine[Any, Any, None]]
    ) -> Answer:
        try:
            async with asyncio.TaskGroup() as tasks:
                pump = None if sink is None else tasks.create_task(call.pump(sink))
                others = [tasks.create_task(one) for one in pumps]
                if source is not None:
                    call.input = Window()
                    others.append(tasks.create_task(self._feed(call, call.input, source)))
                try:
                    answer = await call.answer
                    call.end_output()
                    if pump is not None:
                        await pump
                except asyncio.CancelledError:
                    await self._cancel(call)
                    raise
                finally:
                    for task in others if pump is None else (*others, pump):
                        task.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return answer

    async def _feed(self, call: InFlight[Answer], window: Window, source: Source) -> None:
        """Send a call's input no faster than the runner takes it."""
        try:
            async for data in source:
                for piece in pieces(data):
                    await window.take(len(piece))
                    await self.writable.wait()
                    self.send({"op": "input", "id": call.id}, piece)
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
        self.send({"op": "input", "id": call.id, "eof": True})

    async def _resize(self, call: InFlight[Answer], resizes: Resizes) -> None:
        while True:
            rows, cols = (max(1, min(side, LONGEST_SIDE)) for side in await resizes.get())
            self.send({"op": "resize", "id": call.id, "rows": rows, "cols": cols})

    async def _signal(self, call: InFlight[Answer], signals: Signals) -> None:
        async for name in signals:
            self.send({"op": "signal", "id": call.id, "signal": name})

    def _acknowledge(self, call_id: str, size: int) -> None:
        self.send({"op": "ack", "id": call_id, "n": size})

    # --- what the stream calls ------------------------------------------------------------------------------------

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Take a frame of a call, or one of another kind."""
        kind, call_id = header.get("op"), header.get("id")
        call = self._calls.get(call_id) if type(call_id) is str else None
        if call is None:
            self.take_other(header, payload)
        elif kind is None:
            kept = call.kept
            answer = self.read_answer(header, payload, kept.get("stdout", b""), kept.get("stderr", b""))
            del self._calls[call.id]
            if self._quiet is not None and not self._calls:
                self._quiet.set()
                self._quiet = None
            if not call.answer.done():
                call.answer.set_result(answer)
        elif kind == "output":
            call.receive(header.get("stream"), payload)
        elif kind == "ack" and call.input is not None:
            call.input.acknowledged(header.get("n"))
        else:
            raise FrameError("a frame of unknown kind")

    def take_other(self, header: dict[str, Any], payload: bytes) -> None:  # noqa: ARG002  for those that know others
        """Take a frame that belongs to no call in flight; FrameError loses the stream."""
        raise FrameError("a frame for a call that is not in flight")

    def give_up(self, reason: str) -> None:
        """End every call that is in flight."""
        calls, self._calls = self._calls, {}
        if self._quiet is not None:
            self._quiet.set()
            self._quiet = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in calls.values():
            if not call.answer.done():
                fail(call.answer, reason)


class RunnerWire(Wire[Reply]):
    """The wire to a runner, whose every answer is checked, and which may begin upcalls of its own."""

    # Only an answer contains what a tool found; greetings, questions and all that follows them are short. A mebibyte of
    # `{},` takes 24 MiB once it is parsed.
    short_line, answer_line = 4 << 10, b'{"id":'

    def __init__(self, channel: Channel, *, grace_s: float = GRACE_S) -> None:
        super().__init__(channel, grace_s=grace_s)
        self.upcalls = Upcalls(self)

    def take_other(self, header: dict[str, Any], payload: bytes) -> None:
        """Take a frame of an upcall."""
        if "up" in header:
            self.upcalls.take(header, payload)
        else:
            super().take_other(header, payload)

    def give_up(self, reason: str) -> None:
        """End every call, and every upcall."""
        super().give_up(reason)
        self.upcalls.give_up()

    read_answer = staticmethod(check_runner)
