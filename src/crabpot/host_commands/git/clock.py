"""How long an operation may still take: it has several steps, and one time limit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crabpot.errors import HostRefused


@dataclass(slots=True, kw_only=True)
class Clock:
    """Runs down while an operation works, and not while a person is asked."""

    limit_s: float
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._deadline = time.monotonic() + self.limit_s

    def left_s(self) -> float:
        """Give the seconds that are left; HostRefused where there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise HostRefused("timeout", f"the time limit of {self.limit_s:g} s was reached")
        return left
