"""The terminal's end of a call: raw mode, sizes, and standard input that never holds the program back from ending."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
import tty
from typing import TYPE_CHECKING

from crabpot.backends.wire import LONGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_CHUNK = 64 * 1024
_USUAL_SIZE = (24, 80)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)


@contextlib.contextmanager
def taken(*, wanted: bool) -> Iterator[tuple[int, int] | None]:
    """Put the terminal into raw mode and give its size; None where none is wanted."""
    if not wanted:
        yield None
        return
    if sys.stdin is None or not sys.stdin.isatty():
        yield _USUAL_SIZE
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        # TCSADRAIN: what was typed ahead while we started is for the program inside.
        tty.setraw(fd, termios.TCSADRAIN)
        yield _size()
    finally:
        # TCSAFLUSH: keys typed ahead for the program inside must not reach the shell outside.
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdin.fileno())
    except OSError:
        return _USUAL_SIZE
    rows, cols = (max(1, min(side, LONGEST_SIDE)) for side in (size.lines, size.columns))
    return rows, cols


def kind() -> dict[str, str]:
    """Tell the program inside which terminal it speaks to, where that is known."""
    known = os.environ.get("TERM", "")
    return {"TERM": known} if _KIND.fullmatch(known) else {}


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
            data = _read_some()
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


def _read_some() -> bytes:
    try:
        if os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp():
            return b""  # In the background: to read from the terminal would stop the whole program.
        while True:
            try:
                return os.read(0, _CHUNK)
            except BlockingIOError:
                select.select([0], [], [])
    except OSError:
        return b""


async def write_out(stream: str, data: bytes) -> None:
    """Write output to where it belongs, bytes as they are. It is the program's own pace that the call waits for."""
    fd = 2 if stream == "stderr" else 1
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await asyncio.sleep(0.005)
