"""Show in a terminal's title that a question waits, while an agent inside owns the terminal itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabpot.approvals.requests import Answer, Request

# Save and restore the title (xterm's stack of titles); ESC ] 2 sets it. Fixed text: nothing of a request is in it.
_SAVE, _RESTORE = b"\x1b[22;2t", b"\x1b[23;2t"
_WAITS = b"\x1b]2;(!) a question waits: crabpot approvals watch\x07\x07"


class Bell:
    """An approver that rings, and leaves the answer to others."""

    def __init__(self) -> None:
        self._waiting = 0

    async def ask(self, request: Request) -> Answer | None:  # noqa: ARG002  what is asked is shown elsewhere
        """Ring, and wait until somebody has answered elsewhere."""
        self._waiting += 1
        _write((_SAVE if self._waiting == 1 else b"") + _WAITS)
        try:
            await asyncio.Event().wait()
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                _write(_RESTORE)
        return None


def _write(data: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(1, data)
