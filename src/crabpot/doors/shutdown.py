"""Shut down a serving gateway: cleanly at the first signal, and after a grace period even if a part is stuck."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Enough to remove many containers, and less than a service manager waits before it kills.
GRACE_S = 30.0
_LAST_WORDS_S = 2.0


class Shutdown:
    """Whether shutdown was requested. From then on the process has `GRACE_S` to end."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        # Writes what must not be lost, if that is still possible.
        self.last_words: Callable[[], object] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._timer: threading.Timer | None = None

    def listen(self) -> None:
        """Handle the signals that end a program. Not through the loop, which may itself be stuck."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def ask(self) -> int:
        """Begin to shut down as at a signal, and return which process ends."""
        self._on_signal(signal.SIGTERM, None)
        return os.getpid()

    def _on_signal(self, _number: int, _frame: Any) -> None:
        with suppress(RuntimeError):  # The loop has already ended.
            self._loop.call_soon_threadsafe(self.asked.set)
        if self._timer is None:
            self._timer = threading.Timer(GRACE_S, self._give_up)
            self._timer.daemon = True
            self._timer.start()

    def _give_up(self) -> None:
        """End now. No sandbox outlives the gateway: each ends when the stream to its gateway closes."""
        said = f"crabpot: a part of the gateway is stuck; ending anyway, {GRACE_S:g} s after the signal"
        print(said, file=sys.stderr)
        writing = threading.Thread(target=self.last_words, daemon=True)
        writing.start()
        writing.join(_LAST_WORDS_S)
        os._exit(1)
