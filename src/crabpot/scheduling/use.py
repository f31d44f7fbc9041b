"""What one principal uses of an event loop: the steps that wait for its turn, and what it has used."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# How long one principal's steps run before everybody else's have their turn.
_SLICE_S = 0.0002
# Who uses more of the loop than this part, and this much beyond it, is heavy: one host command takes 40 ms of the loop.
_LIGHT_SHARE, BURST_S = 0.25, 0.1
# What is remembered at most: one long step, or one in which garbage was collected, must not count for a minute.
MOST_OWED_S = 0.25
# For how long it is heavy after that, and after it last had to wait: who is made to use less does not need less.
_HEAVY_S, WAITED_S = 1.0, 0.25


class Charging(Protocol):
    """The loop."""

    # What was charged to somebody by name, in whoever's step it was done.
    others_s: float


class Step(asyncio.Handle):
    """A callback that waits for its principal's turn."""

    def run(self) -> None:
        """Run it, unless it was cancelled."""
        if not self.cancelled():
            self._run()


@dataclass(slots=True)
class Use:
    """What one principal waits for, and what it has used."""

    at: float
    steps: deque[Step] = field(default_factory=deque)
    # What lets its streams be read.
    reads: deque[Callable[[], None]] = field(default_factory=deque)
    owes_s: float = 0.0
    heavy_until: float = -math.inf
    # What it used in turns with others that are heavy.
    ran_s: float = 0.0

    def settle(self, now: float) -> None:
        """Forget of its use what everybody may use in the time that has passed."""
        self.owes_s = max(0.0, self.owes_s - _LIGHT_SHARE * (now - self.at))
        self.at = now

    def add(self, seconds: float) -> None:
        """Add to its use; who uses much for long is heavy for a while."""
        self.owes_s = min(MOST_OWED_S, self.owes_s + seconds)
        if self.owes_s > BURST_S:
            self.heavy_until = self.at + _HEAVY_S

    @property
    def heavy(self) -> bool:
        """Whether it has to leave the loop to others."""
        return self.heavy_until > self.at

    @property
    def waits(self) -> bool:
        """Whether it has anything to do."""
        return bool(self.steps or self.reads)

    def run(self, loop: Charging) -> float:
        """Run steps for one slice, and return what it took; those that they add come in the next turn."""
        # Of the processor: on a busy machine a step may take long through no fault of its principal.
        began = now = time.thread_time()
        others_s = loop.others_s
        # One: many streams that are let go at once would all be read in the same turn.
        if self.reads:
            self.reads.popleft()()
        for _ in range(len(self.steps)):
            self.steps.popleft().run()
            now = time.thread_time()
            if now - began > _SLICE_S:
                break
        used = now - began - (loop.others_s - others_s)
        self.add(used)
        return used
