"""The terminal's end of a call: raw mode, sizes, and standard input that never holds the program back from ending."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_CHUNK = 64 * 1024


@contextlib.contextmanager
def taken(*, wanted: bool) -> Iterator[tuple[int, int] | None]:
    """Put the terminal into raw mode and give its size; None where there is none, or none is wanted."""
    if not wanted:
        yield None
        return
    if not sys.stdin.isatty():
        yield (24, 80)
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield _size()
    finally:
        # TCSAFLUSH: keys typed ahead for the program inside must not reach the shell outside.
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return 24, 80
    return max(1, size.lines), max(1, size.columns)


def resizes() -> asyncio.Queue[tuple[int, int]]:
    """Give a queue of the terminal's new sizes."""
    queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: queue.put_nowait(_size()))
    return queue


async def read_stdin() -> AsyncIterator[bytes]:
    """Give standard input as it comes. A daemon thread reads: a file cannot be polled, a read not cancelled."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    wanted = threading.Semaphore(2)

    def pump() -> None:
        while True:
            wanted.acquire()
            try:
                data = os.read(0, _CHUNK)
            except OSError:
                data = b""
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


async def write_out(stream: str, data: bytes) -> None:
    """Write output to where it belongs, bytes as they are. It is the program's own pace that the call waits for."""
    fd = 2 if stream == "stderr" else 1
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await asyncio.sleep(0.005)
