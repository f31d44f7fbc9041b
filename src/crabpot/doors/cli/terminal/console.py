"""Standard input and output of a call, both held back while a person is asked something on the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_CHUNK = 64 * 1024


class Console:
    """The input and output of a call. While held, no output reaches the terminal, and no typing reaches the call."""

    def __init__(self) -> None:
        self._may_write = asyncio.Event()
        self._may_read = threading.Event()
        self._reading = threading.Lock()
        self._may_write.set()
        self._may_read.set()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold output back, and leave what is typed to the holder."""
        self._may_write.clear()
        self._may_read.clear()
        with self._reading:
            pass  # What is being read was typed before, for the program inside.
        try:
            yield
        finally:
            self._may_read.set()
            self._may_write.set()

    def leave(self) -> None:
        """Read no more of the input: what is typed from now on is for whoever asks next."""
        self._may_read.clear()

    async def write(self, stream: str, data: bytes) -> None:
        """Write output bytes unchanged to the right stream. The call waits for the reader of that stream."""
        fd = 2 if stream == "stderr" else 1
        view = memoryview(data)
        while view:
            await self._may_write.wait()
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)

    async def read(self) -> AsyncIterator[bytes]:
        """Yield standard input as it comes. A daemon thread reads it: a file cannot be polled, nor a read cancelled."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        wanted = threading.Semaphore(2)

        def pump() -> None:
            while True:
                wanted.acquire()
                data = self._read_some()
                try:
                    loop.call_soon_threadsafe(queue.put_nowait, data)
                except RuntimeError:
                    return
                if not data:
                    return

        threading.Thread(target=pump, daemon=True, name="crabpot-stdin").start()
        while data := await queue.get():
            yield data
            wanted.release()

    def _read_some(self) -> bytes:
        try:
            while True:
                self._may_read.wait()
                if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():
                    return b""  # In the background: reading from the terminal would stop the whole program.
                select.select([0], [], [])
                # What was typed during a question is the answer to that question.
                with self._reading, contextlib.suppress(BlockingIOError):
                    if self._may_read.is_set():
                        return os.read(0, _CHUNK)
        except OSError:
            return b""
