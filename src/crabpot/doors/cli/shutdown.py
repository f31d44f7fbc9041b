"""How a gateway that serves ends: in order at the first signal, and after a while even if a part of it is stuck."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.frame import FAILED, complain

if TYPE_CHECKING:
    from collections.abc import Callable

# Enough to remove many containers; less than a service manager waits before it kills.
GRACE_S = 30.0
_LAST_WORDS_S = 2.0


class Shutdown:
    """Whether the end was asked for. From then on the process has `GRACE_S` to come to it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        # What is still to be written, where that is possible.
        self.last_words: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._timer: threading.Timer | None = None

    def listen(self) -> None:
        """Take the signals that end a program. Not by way of the loop, which may itself be what is stuck."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._told)

    def _told(self, _number: int, _frame: Any) -> None:
        with suppress(RuntimeError):  # The loop has come to its end already.
            self._loop.call_soon_threadsafe(self.asked.set)
        if self._timer is None:
            self._timer = threading.Timer(GRACE_S, self._give_up)
            self._timer.daemon = True
            self._timer.start()

    def _give_up(self) -> None:
        """End now. No sandbox outlives it: each ends with the stream to its gateway."""
        complain(f"a part of the gateway is stuck: it ends without it, {GRACE_S:g} s after it was told to")
        writing = threading.Thread(target=self.last_words, daemon=True)
        writing.start()
        writing.join(_LAST_WORDS_S)
        os._exit(FAILED)
