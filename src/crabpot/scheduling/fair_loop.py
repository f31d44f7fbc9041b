"""An event loop whose time no principal can take from the others.

All that a gateway does for everybody runs in one thread, step by step. The steps of one principal wait in a line of
their own. Whoever has used much is *heavy* for as long as its steps have to wait. Each turn of the loop runs a slice of
every other line and of one heavy one. While anybody else, or an operator, has something under way, the heavy ones have
a small part of the time together, so that the loop is free when the next step comes; otherwise they have all of it.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from contextvars import Context
from typing import TYPE_CHECKING, TypeVarTuple

from crabpot.decide.scope import OPERATOR, PRINCIPAL
from crabpot.scheduling.use import MOST_OWED_S, WAITED_S, Step, Use

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = TypeVarTuple("Arguments")

# So long after a step its principal has something under way: the next step of a call, or the next call. An agent that
# works, and a page that is looked at, come back sooner, and find the loop free.
_UNDER_WAY_S = 0.3
# What all who are heavy have together meanwhile.
_HEAVY_SHARE = 0.125
# How often it is found out who needs nothing any more.
_EVERY_S = 0.05
_NOBODYS = Context()
_ANYIO = "anyio._backends._asyncio"


class _Idle(selectors.DefaultSelector):
    """Counts the time in which there was nothing to do."""

    seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        try:
            return super().select(timeout)
        finally:
            self.seconds += time.monotonic() - began


class FairLoop(asyncio.SelectorEventLoop):
    """Shares its time among principals (`PRINCIPAL`); operators and the gateway's own work never wait."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)
        self._uses: dict[str, Use] = {}
        # Those of them that have steps.
        self._lines: dict[str, Use] = {}
        # When anybody who is not heavy had a step last.
        self._light_at = -math.inf
        # From when on the heavy ones have paid for what they used while others had something under way.
        self._paid_at = 0.0
        # What the one that was served last had used.
        self._ran_s = 0.0
        self._counted_at = 0.0
        # What was charged to somebody by name, in whoever's step it was done.
        self.others_s = 0.0
        self._soon = False
        self._later: asyncio.TimerHandle | None = None

    def _now(self) -> float:
        """Return the time that this loop had so far: what it used, and when it had nothing to do.

        On a busy machine it has only a part of the time, and a principal's use is measured by that.
        """
        return time.thread_time() + self._idle.seconds

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn; the step of a principal's task when that principal has its turn."""
        whose = PRINCIPAL.get() if context is None else context.get(PRINCIPAL)
        if whose == OPERATOR:
            self._light_at = self._now()
        # Transports and futures rely on the order of their callbacks, which are short.
        elif whose is not None and _is_step(callback):
            step = Step(callback, args, self, context)
            use = self._use(whose)
            use.steps.append(step)
            if not use.heavy:
                self._light_at = use.at
            self._wake(whose, use)
            return step
        return super().call_soon(callback, *args, context=context)

    def charge(self, whose: str, seconds: float, go_on: Callable[[], None]) -> bool:
        """Charge a principal for what it read; True if it must rest until `go_on` is called."""
        use = self._charged(whose, seconds)
        if use.heavy:
            use.reads.append(go_on)
            self._wake(whose, use)
        return use.heavy

    def charge_done(self, whose: str, seconds: float) -> None:
        """Charge a principal for what was done for it in another's step, or in nobody's; not whose step it was."""
        self.others_s += seconds
        self._charged(whose, seconds)

    def _charged(self, whose: str, seconds: float) -> Use:
        use = self._use(whose)
        use.add(seconds)
        if not use.heavy:
            self._light_at = use.at
        else:
            use.ran_s += seconds
            if self._is_under_way(use.at):
                self._pay(use.at, seconds)
        return use

    def _use(self, whose: str) -> Use:
        """Return what a principal used, up to date."""
        now = self._now()
        self._forget(now)
        use = self._uses.get(whose)
        if use is None:
            use = self._uses[whose] = Use(now)
        use.settle(now)
        return use

    def _forget(self, now: float) -> None:
        """Keep nothing of whoever waits for nothing and has used nothing lately."""
        if now - self._counted_at < _EVERY_S:
            return
        self._counted_at = now
        for whose, use in list(self._uses.items()):
            use.settle(now)
            # Who is in a line may be running a step now, and adds the next to what is kept here.
            if not (whose in self._lines or use.waits or use.owes_s or use.heavy):
                del self._uses[whose]

    def _is_under_way(self, now: float) -> bool:
        """Return whether anybody who is not heavy is likely to have its next step soon."""
        return now - self._light_at < _UNDER_WAY_S

    def _pay(self, now: float, seconds: float) -> None:
        self._paid_at = min(max(self._paid_at, now) + seconds / _HEAVY_SHARE, now + MOST_OWED_S / _HEAVY_SHARE)

    def _rest_s(self, now: float) -> float:
        """Return how long the heavy ones rest: until they have paid, or nobody else has anything under way."""
        return max(0.0, min(self._paid_at, self._light_at + _UNDER_WAY_S) - now)

    def _wake(self, whose: str, use: Use) -> None:
        """Have a line served: in the next turn, or when its rest ends."""
        if whose not in self._lines:
            self._lines[whose] = use
            # Who had nothing to do has saved nothing up.
            use.ran_s = max(use.ran_s, self._ran_s)
        if not self._soon:
            self._serve_in(self._rest_s(use.at) if use.heavy else 0.0)

    def _serve_in(self, seconds: float) -> None:
        if seconds <= 0:
            self._soon = True
            super().call_soon(self._serve, context=_NOBODYS)
        elif self._later is None or self._later.when() > self.time() + seconds:
            if self._later is not None:
                self._later.cancel()
            self._later = self.call_later(seconds, self._serve, context=_NOBODYS)

    def _serve(self) -> None:
        """Run a slice of every line; of the heavy ones only of one, and only if they need not rest."""
        self._soon = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        now = self._now()
        for use in self._lines.values():
            use.settle(now)
        light = [use for use in self._lines.values() if not use.heavy]
        heavy = [use for use in self._lines.values() if use.heavy]
        for use in sorted(light, key=_owed):
            use.run(self)
            self._light_at = self._now()
        if heavy:
            self._serve_heavy(heavy)
        self._lines = {whose: use for whose, use in self._lines.items() if use.waits}
        if self._lines and not self._soon:
            waits = all(use.heavy for use in self._lines.values())
            self._serve_in(self._rest_s(self._now()) if waits else 0.0)

    def _serve_heavy(self, heavy: list[Use]) -> None:
        """Run a slice of the one that used least, unless they rest."""
        now = self._now()
        if self._rest_s(now) <= 0:
            first = min(heavy, key=_ran)
            self._ran_s = first.ran_s
            used = first.run(self)
            first.ran_s += used
            if self._is_under_way(now):
                self._pay(now, used)
        for use in heavy:
            if use.waits:
                use.heavy_until = max(use.heavy_until, now + WAITED_S)


def _is_step(callback: object) -> bool:
    """Return whether a callback is a task's step, or anyio's look whether what it cancelled has ended.

    It looks in every turn, and a task that waits for its principal's turn does not end: the loop would never rest.
    """
    owner = getattr(callback, "__self__", None)
    return isinstance(owner, asyncio.Task) or type(owner).__module__ == _ANYIO


def _owed(use: Use) -> float:
    return use.owes_s


def _ran(use: Use) -> float:
    return use.ran_s


class charged_to:  # noqa: N801  a block
    """Charge the block to a principal, in whoever's step it runs, where the loop is fair."""

    __slots__ = ("_began", "_loop", "_whose")

    def __init__(self, whose: str | None) -> None:
        # There may be none: threads record, too.
        loop = asyncio._get_running_loop()  # noqa: SLF001
        self._loop = loop if whose not in (None, OPERATOR) and isinstance(loop, FairLoop) else None
        self._whose = whose

    def __enter__(self) -> None:
        """Begin the block."""
        if self._loop is not None:
            self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._loop is not None and self._whose is not None:
            self._loop.charge_done(self._whose, time.thread_time() - self._began)


async def turn() -> None:
    """Go on in the line of whoever is behind it, where the loop is fair and there is somebody who may have to wait."""
    if PRINCIPAL.get() not in (None, OPERATOR) and isinstance(asyncio.get_running_loop(), FairLoop):
        await asyncio.sleep(0)
