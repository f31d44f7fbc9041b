"""Sandboxes kept ready: opened ahead of their first call, and given to the first session that wants one like them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.backends.base import Named
from crabpot.errors import CrabpotError
from crabpot.sandboxes import private_folders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from crabpot.sandboxes.fleet import Connected
    from crabpot.spec.spec import SandboxSpec

# No scope key makes such a name: theirs begin with "crabpot-".
PREFIX = "spare-"

_FIRST_CALLS: tuple[tuple[str, dict[str, str]], ...] = (("exec", {"command": ":"}), ("ls", {"path": "."}))
_FIRST_CALL_S = 10.0
# The call that took a spare comes first; another is opened when it is likely to be done.
_REFILL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spare:
    """One that waits, and what keeps its private folder, until somebody takes both."""

    connected: Connected
    held: private_folders.Hold | None
    # Asked once, ahead: looking through a protocol takes longer than moving a folder.
    named: Named | None

    async def end(self) -> None:
        await self.connected.end()
        if self.held is not None:
            self.held.release()


class Spares:
    """Sandboxes by what they have in common: everything but whose they are."""

    def __init__(self, *, state: str, start: Callable[[SandboxSpec], Awaitable[Connected]]) -> None:
        self._state = state
        self._start = start
        self._ready: dict[str, list[_Spare]] = {}
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._beside: set[asyncio.Task[None]] = set()

    def keep(self, spec: SandboxSpec, agent: str, count: int) -> None:
        """Have `count` like this one ready, soon; a failure is left to the call that needs a sandbox to tell."""
        self._keep(spec.family, spec, agent, count, 0.0)

    def _keep(self, family: str, spec: SandboxSpec, agent: str, count: int, after_s: float) -> None:
        if family not in self._filling:
            task = asyncio.create_task(self._fill(family, spec, agent, count, after_s))
            self._filling[family] = task
            task.add_done_callback(lambda _: self._filling.pop(family, None))

    async def _fill(self, family: str, spec: SandboxSpec, agent: str, count: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        ready = self._ready.setdefault(family, [])
        with suppress(CrabpotError, OSError):
            while len(ready) < count:
                ready.append(await self._open(spec, agent))

    async def _open(self, spec: SandboxSpec, agent: str) -> _Spare:
        name = f"{PREFIX}{os.urandom(8).hex()}"
        folder = f"{self._state}/{private_folders.FOLDER}/{name}" if spec.private else spec.workspace
        own = replace(spec, scope_key=name, name=name, workspace=folder)
        held = await private_folders.hold_alone(self._state, own, agent) if spec.private else None
        try:
            connected = await self._start_warm(own)
        except BaseException:
            if held is not None:
                held.abandon()
            raise
        opened = connected.opened
        return _Spare(connected=connected, held=held, named=opened if isinstance(opened, Named) else None)

    async def _start_warm(self, spec: SandboxSpec) -> Connected:
        """Start one whose runner has loaded the code of its tools, which it does at their first call."""
        connected = await self._start(spec)
        try:
            for tool, args in _FIRST_CALLS:
                await connected.wire.call(tool, args, timeout_s=_FIRST_CALL_S)
        except BaseException:
            await connected.end()
            raise
        return connected

    def claim(self, spec: SandboxSpec, agent: str, count: int) -> tuple[Connected, private_folders.Hold | None] | None:
        """Take one over, private folder and all, and have `count` again soon.

        None if there is none, or the session has a folder already.
        """
        family = spec.family
        self._keep(family, spec, agent, count, _REFILL_S)
        waiting = self._ready.get(family, [])
        while waiting and waiting[-1].connected.lost:
            self._end_soon(waiting.pop())
        if not waiting:
            return None
        spare = waiting[-1]
        try:
            if spare.held is not None and not spare.held.pass_on(spec, agent):
                return None
        except OSError:
            self._end_soon(waiting.pop())
            return None
        waiting.pop()
        if spare.named is not None:
            self._soon(spare.named.rename(spec.name))
        return spare.connected, spare.held

    def _end_soon(self, spare: _Spare) -> None:
        self._soon(spare.end())

    def _soon(self, doing: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(doing)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def count(self) -> int:
        """Count those that wait."""
        return sum(len(waiting) for waiting in self._ready.values())

    def sweep(self) -> None:
        """Remove the folders of spares whose gateway died."""
        private_folders.remove(self._state, lambda kept: kept.name.startswith(PREFIX))

    async def close(self) -> None:
        """End those that wait, and leave nothing of them."""
        tasks = list(self._filling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        waiting = [spare for family in self._ready.values() for spare in family]
        used = bool(tasks or self._ready)
        self._ready.clear()
        await asyncio.gather(*(spare.end() for spare in waiting), *self._beside)
        if used:
            self.sweep()
