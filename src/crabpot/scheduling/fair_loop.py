"""An event loop whose time no principal can take from the others.

All that a gateway does for everybody runs in one thread, step by step. The steps of one principal wait in a line of
their own. Each turn of the loop runs a slice of every line; a principal that has used more than its share rests, so
that the loop is free when somebody else's step comes, and not only next in turn.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVarTuple

from crabpot.decide.scope import OPERATOR, PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = TypeVarTuple("Arguments")

# How long one principal's steps run before everybody else's have their turn.
_SLICE_S = 0.0005
# What a principal may use at once before its share counts: one host command takes 40 ms of the loop, in small steps.
_BURST_S = 0.1
# What it owes at most: one long step, or one in which garbage was collected, must not cost a minute of rest.
_MOST_OWED_S = 0.35
# Whoever did something this recently has a share. How often it is found out who did.
_RECENT_S, _EVERY_S = 1.0, 0.05
# Among many who do little, one that does much is not held to its part of them all.
_LEAST_SHARE = 0.125
_NOBODYS = Context()


class _Step(asyncio.Handle):
    """A callback that waits for its principal's turn."""

    def run(self) -> None:
        if not self.cancelled():
            self._run()


@dataclass(slots=True)
class _Use:
    """What one principal waits for, and the time that it owes the loop."""

    at: float
    steps: deque[_Step] = field(default_factory=deque)
    owes_s: float = 0.0

    def repay(self, now: float, share: float) -> None:
        self.owes_s = min(_MOST_OWED_S, max(0.0, self.owes_s - share * (now - self.at)))
        self.at = now

    def run(self) -> None:
        """Run steps for one slice; those that they add come in the next turn."""
        # Of the processor: on a busy machine a step may take long through no fault of its principal.
        began = now = time.thread_time()
        for _ in range(len(self.steps)):
            self.steps.popleft().run()
            now = time.thread_time()
            if now - began > _SLICE_S:
                break
        self.owes_s += now - began


class FairLoop(asyncio.SelectorEventLoop):
    """Shares its time among principals (`PRINCIPAL`); operators and the gateway's own work never wait."""

    def __init__(self) -> None:
        super().__init__()
        self._uses: dict[str, _Use] = {}
        # Those of them that have steps.
        self._lines: dict[str, _Use] = {}
        # Who did something lately, and when.
        self._active: dict[str, float] = {}
        self._share, self._counted_at = 1.0, 0.0
        self._soon = False
        self._later: asyncio.TimerHandle | None = None

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn; the step of a principal's task when that principal has its turn."""
        whose = PRINCIPAL.get() if context is None else context.get(PRINCIPAL)
        if whose == OPERATOR:
            self._active[whose] = time.monotonic()
        # Transports and futures rely on the order of their callbacks, which are short.
        elif whose is not None and isinstance(getattr(callback, "__self__", None), asyncio.Task):
            step = _Step(callback, args, self, context)
            use = self._use(whose)
            use.steps.append(step)
            self._wake(whose, use)
            return step
        return super().call_soon(callback, *args, context=context)

    def charge(self, whose: str, seconds: float, go_on: Callable[[], None]) -> bool:
        """Charge a principal for what it used beside its tasks; True if it must rest until `go_on` is called."""
        use = self._use(whose)
        use.owes_s += seconds
        use.repay(use.at, self._share)
        rests = use.owes_s > _BURST_S
        if rests:
            # First in its line: calls that await what is to be read have deadlines.
            use.steps.appendleft(_Step(go_on, (), self))
            self._wake(whose, use)
        return rests

    def _use(self, whose: str) -> _Use:
        """Return what a principal used, up to date."""
        now = self._active[whose] = time.monotonic()
        self._count(now)
        use = self._uses.get(whose)
        if use is None:
            use = self._uses[whose] = _Use(now)
        use.repay(now, self._share)
        return use

    def _count(self, now: float) -> None:
        """Find out which part of the time one principal may use: all of it while nobody else does anything.

        Half of the time stays free where a few do much, for whoever does little: it would wait for each of their steps.
        """
        if now - self._counted_at < _EVERY_S and len(self._active) > 1:
            return
        self._counted_at = now
        for whose in [one for one, at in self._active.items() if now - at > _RECENT_S]:
            del self._active[whose]
        few = 0.5 ** len(self._active.keys() - {OPERATOR})
        self._share = 1.0 if len(self._active) <= 1 else max(_LEAST_SHARE, few)
        for whose, use in list(self._uses.items()):
            use.repay(now, self._share)
            if not (use.steps or use.owes_s):
                del self._uses[whose]

    def _wake(self, whose: str, use: _Use) -> None:
        """Have a line served: in the next turn, or when its rest ends."""
        self._lines[whose] = use
        if not self._soon:
            self._serve_in((use.owes_s - _BURST_S) / self._share)

    def _serve_in(self, seconds: float) -> None:
        if seconds <= 0:
            self._soon = True
            super().call_soon(self._serve, context=_NOBODYS)
        elif self._later is None or self._later.when() > self.time() + seconds:
            if self._later is not None:
                self._later.cancel()
            self._later = self.call_later(seconds, self._serve, context=_NOBODYS)

    def _serve(self) -> None:
        """Run a slice of every line whose principal need not rest; who owes least is first."""
        self._soon = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._settle()
        for use in sorted(self._lines.values(), key=_owed):
            if use.owes_s <= _BURST_S:
                use.run()
        self._settle()
        if self._lines and not self._soon:
            self._serve_in((min(map(_owed, self._lines.values())) - _BURST_S) / self._share)

    def _settle(self) -> None:
        """Bring the debts of those who wait up to date, and drop who waits for nothing."""
        now = time.monotonic()
        self._count(now)
        self._lines = {whose: use for whose, use in self._lines.items() if use.steps}
        for use in self._lines.values():
            use.repay(now, self._share)


def _owed(use: _Use) -> float:
    return use.owes_s


async def turn() -> None:
    """Go on in the line of whoever is behind it, where the loop is fair."""
    if isinstance(asyncio.get_running_loop(), FairLoop):
        await asyncio.sleep(0)
