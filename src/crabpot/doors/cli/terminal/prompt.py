"""Ask on the terminal itself, which no sandbox reaches, not on standard input or output, which may be anything.

Before a question appears, output is held back, the terminal is reset from whatever state output left it in, and
typed-ahead input is discarded: nothing from inside draws over a question, nothing typed before answers it.
"""

from __future__ import annotations

import asyncio
import contextlib
import locale
import os
import sys
import termios
import time
from typing import TYPE_CHECKING, Protocol

from crabpot.approvals.requests import denied, left_s
from crabpot.doors.cli.frame import complain
from crabpot.doors.cli.terminal import question

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.approvals.approver import Approver
    from crabpot.approvals.requests import Answer, Request

    class Held(Protocol):
        """What connects a call to the terminal, and can be held back."""

        def held(self) -> contextlib.AbstractContextManager[None]:
            """Hold output back, and leave what is typed to the holder."""


_TERMINAL = "/dev/tty"
# CAN and ST end a sequence that output left open. Then: soft reset, plain colours, the ASCII character set, a visible
# cursor, scrolling of the whole screen. Otherwise a question could be drawn in black on black.
_SANE = b"\x18\x1b\\\x1b[!p\x1b[0m\x1b(B\x0f\x1b[?6l\x1b[?7h\x1b[?25h\x1b[r"
# Below everything, or on another screen if a program inside uses the alternate one: none of its output is below a
# question.
_AT_THE_BOTTOM, _ALONE = b"\x1b[999;1H\r\n", b"\x1b[?1049l\x1b[2J\x1b[H"
# A terminal replies to some sequences in the output as if typed; and a person may be typing something else.
_DEAF_S = 0.6
_LONGEST_LINE = 600
_ERASE, _ERASE_ALL, _INTERRUPTS = (8, 127), (21,), (3, 4, 28)
_ENTER = (10, 13)


def approver(console: Held, state: str) -> Approver:
    """Return an approver for this terminal if we are in its foreground, else one that says how to answer elsewhere."""
    try:
        with _opened() as fd:
            here = os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        here = False
    return Terminal(console) if here else Notice(state)


class Notice:
    """An approver without a terminal: prints what waits, and how to answer it elsewhere."""

    def __init__(self, state: str) -> None:
        self._state = state

    async def ask(self, request: Request) -> Answer | None:
        """Print the request, and leave the answer to others."""
        while True:
            for text in question.notice(request, self._state):
                complain(text)
            # Again, below whatever was printed since.
            await asyncio.sleep(question.REMIND_S)


class Terminal:
    """An approver that asks on the terminal, one question at a time."""

    def __init__(self, console: Held) -> None:
        self._console = console
        self._turn = asyncio.Lock()

    async def ask(self, request: Request) -> Answer | None:
        """Ask, and return the answer. A terminal that closes is a denial."""
        async with self._turn:
            try:
                with self._console.held(), _opened() as fd, _taken(fd):
                    return await _Question(fd, request).answer()
            except (OSError, termios.error):
                return denied("terminal", "the terminal was closed")


@contextlib.contextmanager
def _opened() -> Iterator[int]:
    # Opened anew, and non-blocking: an inherited open file shares its mode with other processes.
    fd = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _taken(fd: int) -> Iterator[None]:
    """Read keys one by one, without echo or signals, and restore the terminal afterwards."""
    before = termios.tcgetattr(fd)
    now = termios.tcgetattr(fd)
    now[0] &= ~(termios.ICRNL | termios.IXON | termios.IGNCR | termios.INLCR)
    now[1] |= termios.OPOST | termios.ONLCR
    now[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
    drawn = not before[3] & termios.ICANON
    _write(fd, b"\r\n" if _is_dumb() else _SANE + (_ALONE if drawn else _AT_THE_BOTTOM))
    termios.tcsetattr(fd, termios.TCSAFLUSH, now)
    try:
        yield
    finally:
        # What was typed at the question must reach nobody else.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") == "dumb"


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    deadline = time.monotonic() + 1.0
    while view and time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            view = view[os.write(fd, view) :]


class _Question:
    """One question on the terminal, and the line that is being typed."""

    def __init__(self, fd: int, request: Request) -> None:
        self._fd = fd
        self._request = request
        self._typed = bytearray()
        self._answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._plain = _is_dumb()

    async def answer(self) -> Answer:
        """Show the question and wait, counting down the time left."""
        for text in question.lines(self._request):
            self._say(text)
        self._say(question.duration(self._request))
        self._say(question.choices(self._request))
        await asyncio.sleep(_DEAF_S)
        termios.tcflush(self._fd, termios.TCIFLUSH)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._read)
        # Only now: what is typed once the prompt is visible counts.
        self._prompt()
        try:
            while not self._answered.done():
                await asyncio.wait([self._answered], timeout=1)
                if not self._answered.done() and not self._plain:
                    self._prompt()
            answer = self._answered.result()
            self._end(question.outcome(answer, self._request))
            return answer
        except asyncio.CancelledError:
            late = left_s(self._request, time.time()) == 0
            self._end("time is up: denied" if late else "answered elsewhere, or withdrawn")
            raise
        finally:
            loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            keys = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        if not keys:
            self._settle(denied("terminal", "the terminal was closed"))
            return
        if 0x1B in keys:  # noqa: PLR2004  ESC
            # A terminal's own report, or a function key: neither is an answer.
            self._typed.clear()
        else:
            for key in keys:
                self._take(key)
        self._prompt()

    def _take(self, key: int) -> None:
        if self._answered.done():
            return
        if key in _INTERRUPTS:
            self._settle(denied("terminal"))
        elif key in _ERASE:
            del self._typed[-1:]
        elif key in _ERASE_ALL:
            self._typed.clear()
        elif key in _ENTER:
            typed = self._typed.decode("utf-8", "replace")
            self._typed.clear()
            answer = question.understood(self._request, typed, "terminal")
            if answer is not None:
                self._settle(answer)
            elif typed.strip():
                self._say("")
                self._say(f"type one of: {question.choices(self._request)}")
        elif key >= ord(" ") and len(self._typed) < _LONGEST_LINE:
            self._typed.append(key)

    def _settle(self, answer: Answer) -> None:
        if not self._answered.done():
            self._answered.set_result(answer)

    def _prompt(self) -> None:
        minutes, seconds = divmod(left_s(self._request, time.time()), 60)
        typed = self._typed.decode("utf-8", "replace")
        self._show(f"[{minutes}:{seconds:02} left] > {typed}")

    def _say(self, text: str) -> None:
        self._show(f"{text}\r\n")

    def _show(self, text: str) -> None:
        encoding = sys.stderr.encoding if sys.stderr else locale.getencoding()
        clean = "\r" if self._plain else "\r\x1b[K"
        _write(self._fd, (clean + text).encode(encoding, "backslashreplace"))

    def _end(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._say("")
            self._say(f"crabpot: {self._request.id}: {text}")
