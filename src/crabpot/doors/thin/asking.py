"""Questions of the gateway, asked by the terminal's own approver in a thread, while the call goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.terminal import prompt
from crabpot.doors.local.questions import Answerer
from crabpot.doors.thin.client import is_in_background
from crabpot.runner.core.frames import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.doors.thin.running import Call

_CLOSE_S = 10.0


class Asking:
    """The questions of one call. `bell` is readable when an answer is to be sent, or the terminal was given back."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.bell, self._ring = os.pipe()
        os.set_blocking(self.bell, False)
        self._answers: list[bytes] = []
        self._terminal = threading.Lock()
        self._answerer = Answerer(self._send)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, daemon=True, name="crabpot-asking").start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle a question or its withdrawal."""
        self._loop.call_soon_threadsafe(self._take, header, payload)

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        if self._answerer.approver is None:
            state = self._call.state
            self._answerer.approver = prompt.Notice(state) if self._call.alone else prompt.approver(self, state)
        self._answerer.take(header, payload)

    def _send(self, header: dict[str, Any], payload: bytes) -> None:
        self._answers.append(encode(header, payload))
        os.write(self._ring, b"+")

    def answers(self) -> list[bytes]:
        """Return the frames to send."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.bell, 4096)
        answers, self._answers = self._answers, []
        return answers

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold output back, and leave what is typed to the question."""
        self._call.held = True
        with self._terminal:
            pass  # What is being read was typed before, for the program inside; what is being written comes above.
        try:
            yield
        finally:
            self._call.held = False
            os.write(self._ring, b"+")

    def read_input(self, size: int) -> bytes | None:
        """Read standard input, unless what was typed there is an answer."""
        with self._terminal, contextlib.suppress(BlockingIOError):
            if self._call.held or not select.select([0], [], [], 0)[0]:
                return None
            try:
                return b"" if is_in_background(0) else os.read(0, size)
            except OSError:
                return b""
        return None

    def write_output(self, fd: int, data: bytes) -> bytes:
        """Write output until a question is asked, at the pace of its reader, and return what is left of it."""
        view = memoryview(data)
        while view:
            select.select([], [fd], [])
            # Looked at and written in one step: a question drawn in between would be drawn over.
            with self._terminal, contextlib.suppress(BlockingIOError):
                if self._call.held:
                    break
                view = view[os.write(fd, view[: select.PIPE_BUF]) :]
        return bytes(view)

    def close(self) -> None:
        """Take back what is still asked, and leave the terminal as it was."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._answerer.close(), self._loop).result(_CLOSE_S)
