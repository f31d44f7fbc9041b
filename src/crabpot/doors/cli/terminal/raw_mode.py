"""The terminal of a call that has one: raw mode, and its size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING

from crabpot.wire.calls import LONGEST_SIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL_SIZE = (24, 80)
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)


@contextlib.contextmanager
def taken(*, wanted: bool) -> Iterator[tuple[int, int] | None]:
    """Put the terminal into raw mode and yield its size; None if no terminal is wanted."""
    if not wanted:
        yield None
        return
    if sys.stdin is None or not sys.stdin.isatty():
        yield _USUAL_SIZE
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        # TCSADRAIN: what was typed while we started is for the program inside.
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
    """Return the environment that names the terminal to the program inside, if known."""
    known = os.environ.get("TERM", "")
    return {"TERM": known} if _KIND.fullmatch(known) else {}


def resizes() -> asyncio.Queue[tuple[int, int]]:
    """Yield a queue of the terminal's new sizes."""
    queue: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: queue.put_nowait(_size()))
    return queue
