"""The time limit of an operation, shared by its several steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from crabpot.errors import HostRefused


@dataclass(slots=True, kw_only=True)
class Clock:
    """Runs while an operation works, but not while a person is asked."""

    limit_s: float
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start the time limit again."""
        self._deadline = time.monotonic() + self.limit_s

    def left_s(self) -> float:
        """Return the seconds left; HostRefused if there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise HostRefused("timeout", f"the time limit of {self.limit_s:g} s was reached")
        return left
