"""How long a server that does not start is left alone: twice as long after each failure, up to a minute."""

from __future__ import annotations

import time
from dataclasses import dataclass

_FIRST_S, _LONGEST_S = 1.0, 60.0


@dataclass(slots=True)
class Backoff:
    """The failures of one server in a row."""

    failures: int = 0
    until: float = 0.0
    why: str = ""

    def failed(self, why: str) -> None:
        """Note one more failure."""
        wait_s = min(_FIRST_S * 2**self.failures, _LONGEST_S)
        self.failures, self.until, self.why = self.failures + 1, time.monotonic() + wait_s, why

    @property
    def left_s(self) -> float:
        """How long to wait before it is started again."""
        return max(0.0, self.until - time.monotonic())
