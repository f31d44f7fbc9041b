"""Worker threads that no agent can take from the others: each scope, and each agent, has an allowance of its own.

A thread that waits for ever cannot be ended. So it is counted against whoever it works for, and the rest of the pool
goes on; what exceeds an allowance waits in its own line.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from crabpot.decide.scope import ACTING_FOR
from crabpot.scheduling.fairness import Allowance, Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.decide.scope import Account

P = ParamSpec("P")
T = TypeVar("T")

# How long shutdown waits for busy threads. One that is stuck would make it wait for ever.
_PATIENCE_S = 5.0


_WORKERS = Allowance(scope=4, agent=16, agents=64, own=16)

# How far a gateway goes before ordinary programs: the kernel gives it ten times the weight of one of them.
_FIRST_NICE = -10


def go_first() -> None:
    """Let this thread run before what agents run, if the kernel allows it; what it starts does not inherit that.

    All agents wait for the gateway; each time it wakes, it would wait for whatever one of them keeps busy.
    """
    with suppress(OSError):
        # A different priority was set on purpose.
        if os.getpriority(os.PRIO_PROCESS, 0) == 0:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, _FIRST_NICE)


def goes_first() -> bool:
    """Return whether this thread runs before what agents run."""
    return os.getpriority(os.PRIO_PROCESS, 0) == _FIRST_NICE and bool(os.sched_getscheduler(0) & os.SCHED_RESET_ON_FORK)


def take_along(pid: int) -> None:
    """Let a child go as this thread does, with what it starts, until `leave_behind`; nothing if this one does not."""
    if goes_first():
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, _FIRST_NICE)


def leave_behind(pid: int) -> None:
    """Let a process and its group run as any other from now on; OSError if it cannot be done."""
    if goes_first():
        os.setpriority(os.PRIO_PGRP, os.getpgid(pid), 0)


@dataclass(slots=True, eq=False)
class _Job:
    whose: Account | None
    future: Future[Any]
    work: Callable[[], Any]

    def run(self) -> None:
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.work())
            except BaseException as error:  # noqa: BLE001  it belongs to whoever waits for the answer
                self.future.set_exception(error)


class FairThreads(ThreadPoolExecutor):
    """An executor that knows for whom each job is (`acting_for`). Event loops require a ThreadPoolExecutor.

    Its threads are daemons: the interpreter does not wait for one that is stuck. Each begins with `initializer`.
    """

    def __init__(
        self,
        allowed: Allowance = _WORKERS,
        *,
        name: str = "crabpot-worker",
        initializer: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(1)
        self._name = name
        self._begin = initializer
        self._line: Line[_Job] = Line(allowed)
        self._turn = threading.Condition()
        self._ready: SimpleQueue[_Job] = SimpleQueue()
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run this in a thread, on behalf of whoever the caller acts for."""
        job = _Job(ACTING_FOR.get(), Future(), partial(fn, *args, **kwargs))
        with self._turn:
            if self._closed:
                raise RuntimeError("the threads have ended")
            self._line.join(job.whose, job)
            self._dispatch()
        return job.future

    def _dispatch(self) -> None:
        while (job := self._line.next()) is not None:
            self._ready.put(job)
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        self._begin()
        while True:
            job = self._ready.get()
            whose = job.whose
            job.run()
            # What it held must not stay alive until the next job comes.
            del job
            with self._turn:
                self._line.leave(whose)
                self._idle += 1
                self._dispatch()
                self._turn.notify_all()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002  the base's
        """Accept no more, drop what waits, and wait a moment for busy threads: not for one that is stuck."""
        with self._turn:
            self._closed = True
            dropped = [job for jobs in self._line.waiting.values() for job in jobs]
            self._line.waiting.clear()
            for job in dropped:
                job.future.cancel()
            if wait:
                self._turn.wait_for(lambda: not self._line.inside, _PATIENCE_S)
