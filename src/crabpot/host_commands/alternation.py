"""Run a host command and the sandbox that called it alternately: while one runs, the other is frozen.

A shim inside wants the command's output as it comes, so its sandbox cannot stay frozen until the end. But whatever runs
inside could change the folder under the command. So the command is stopped while the sandbox reads and writes, and
everything checked before the start is checked again before the command continues.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from crabpot.backends.linux import freezing
from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

# The command's turns grow up to the last value: most commands end in their first.
_TURNS_S = (0.1, 0.1, 0.2, 0.4)
_SANDBOXS_TURN_S = 0.02
# Longer while output waits to be read inside.
_LONGEST_S = 0.5
_POLL_S = 0.002
_STOP_S = 2.0
# A process in uninterruptible sleep after this many checks is waiting for one that is stopped.
_WAITING_ROUNDS = 25


class Freezable(Protocol):
    """A sandbox that can be frozen."""

    async def freeze(self) -> None:
        """Freeze the sandbox."""

    async def thaw(self) -> None:
        """Thaw the sandbox."""


class Alternation:
    """The turns of one command and one sandbox, which is frozen when this begins and when it ends."""

    def __init__(
        self,
        sandbox: Freezable,
        check: Callable[[], Awaitable[None]],
        *,
        waits: Callable[[], bool],
    ) -> None:
        self._sandbox = sandbox
        self._check = check
        self._waits = waits

    async def take(self, pid: int) -> None:
        """Alternate until cancelled. If what was checked has changed, kill the command and raise HostRefused."""
        for count in range(1 << 62):
            await asyncio.sleep(_TURNS_S[min(count, len(_TURNS_S) - 1)])
            try:
                await _stop(pid)
                await self._sandboxs_turn()
                await self._check()
            except BaseException:
                # When cancelled, too: after a change, hanging up must not let the command run on for a moment.
                _kill_below(pid)
                raise
            finally:
                with suppress(PermissionError):
                    freezing.go_on(pid)

    async def _sandboxs_turn(self) -> None:
        try:
            await _uninterrupted(self._sandbox.thaw())
            began = time.monotonic()
            await asyncio.sleep(_SANDBOXS_TURN_S)
            while self._waits() and time.monotonic() - began < _LONGEST_S:  # noqa: ASYNC110  acknowledged elsewhere
                await asyncio.sleep(_POLL_S)
        finally:
            await _uninterrupted(self._sandbox.freeze())


async def _uninterrupted(step: Coroutine[Any, Any, None]) -> None:
    """Take a step to its end, even if cancelled: after half a thaw nobody knows whether the next freeze freezes."""
    task, cancelled = asyncio.ensure_future(step), False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def _stop(pid: int) -> None:
    """Stop a process and its descendants; if one cannot be stopped, end the command."""
    deadline, waiting = time.monotonic() + _STOP_S, 0
    while left := _stopping(pid):
        waiting = waiting + 1 if left == {"D"} else 0
        if waiting >= _WAITING_ROUNDS:
            return
        if time.monotonic() > deadline:
            raise HostRefused("conflict", "the command could not be stopped while its sandbox ran")
        await asyncio.sleep(_POLL_S)


def _stopping(pid: int) -> set[str]:
    try:
        return freezing.stop(pid)
    except PermissionError:
        # It now runs as another user, as by sudo.
        return {"?"}


def _kill_below(pid: int) -> None:
    """Kill all descendants of a stopped process, which itself lives on to reap them."""
    for one in freezing.below(pid):
        if one.pid != pid:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except OSError:
                continue
