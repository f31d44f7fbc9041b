"""Write to the gateway's own output while it serves, even if nobody reads it.

A stopped terminal (Ctrl-S) or a full pipe blocks whoever writes to it. So a separate thread writes, what it cannot
keep up with is counted, and the gateway goes on.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_WAITING = 64


class NonblockingOutput:
    """Standard output, written by a separate thread."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        self._left_out = 0
        self._writer: threading.Thread | None = None

    def write(self, lines: Iterable[str]) -> None:
        """Queue lines to be written; if too many are waiting, only count them."""
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_all, name="crabpot-output", daemon=True)
            self._writer.start()
        try:
            self._waiting.put_nowait("\n".join(lines))
        except queue.Full:
            self._left_out += 1

    def _write_all(self) -> None:
        while True:
            text = self._waiting.get()
            try:
                print(text, flush=True)
                missed, self._left_out = self._left_out, 0
                if missed:
                    print(f"{counted(missed, 'more request')} not shown here: crabpot approvals list", flush=True)
            except (OSError, ValueError):
                continue  # The reader is gone.
