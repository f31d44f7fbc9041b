"""Sandboxes kept ready: opened ahead of their first call, and given to the first session that wants one like them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.live import Live, Wanted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.sandboxes.live import Hold
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec

    Start = Callable[[SandboxSpec, AgentSettings, Hold | None], Awaitable[Live]]

# No scope key makes such a name: theirs begin with "crabpot-".
PREFIX = "spare-"

_FIRST_CALLS: tuple[tuple[str, dict[str, str]], ...] = (("exec", {"command": ":"}), ("ls", {"path": "."}))
_FIRST_CALL_S = 10.0
# The call that took a spare comes first; another is opened when it is likely to be done.
_REFILL_S = 0.1


class Spares:
    """Sandboxes by what they have in common: everything but whose they are."""

    def __init__(self, *, state: str, start: Start) -> None:
        self._state = state
        self._start = start
        self._begun = False
        self._ready: dict[str, list[Live]] = {}
        self._filling: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, wanted: list[tuple[SandboxSpec, AgentSettings]]) -> None:
        """Begin to keep sandboxes ready, for these first, and no others; a gateway for one call never does."""
        if wanted and not self._begun:
            self.sweep()
        self._begun = True
        for family in self._ready.keys() - {spec.family for spec, _ in wanted}:
            for spare in self._ready.pop(family):
                self._discard_soon(spare)
        for spec, agent in wanted:
            if spec.layer is None:
                self._keep(spec, agent, 0.0)

    def _keep(self, spec: SandboxSpec, agent: AgentSettings, after_s: float) -> None:
        """Have as many like this one as its agent wants; a failure is left for the call that needs one to report."""
        family = spec.family
        if family not in self._filling:
            task = asyncio.create_task(self._fill(spec, agent, after_s))
            self._filling[family] = task
            task.add_done_callback(lambda _: self._filling.pop(family, None))

    async def _fill(self, spec: SandboxSpec, agent: AgentSettings, after_s: float) -> None:
        await asyncio.sleep(after_s)
        ready = self._ready.setdefault(spec.family, [])
        with suppress(CrabpotError, OSError):
            while len(ready) < agent.sandbox.warm:
                ready.append(await self._open(spec, agent))

    async def _open(self, spec: SandboxSpec, agent: AgentSettings) -> Live:
        """Open one whose runner has loaded the code of its tools, which it does at their first call."""
        name = f"{PREFIX}{os.urandom(8).hex()}"
        folder = f"{self._state}/{private_folders.FOLDER}/{name}" if spec.private else spec.workspace
        own = replace(spec, scope_key=name, name=name, workspace=folder)
        held = await private_folders.hold_alone(self._state, own, agent.id) if spec.private else None
        live = await self._start(own, agent, held)
        try:
            for tool, args in _FIRST_CALLS:
                await live.wire.call(tool, args, timeout_s=_FIRST_CALL_S)
        except BaseException:
            await _discard(live)
            raise
        return live

    def claim(self, spec: SandboxSpec, agent: AgentSettings) -> Live | None:
        """Take one over, private folder and all, and open another soon.

        None if there is none, or the session has a folder already.
        """
        # A layer belongs to one scope from its first mount on: no spare can have one yet.
        if not self._begun or not agent.sandbox.warm or spec.layer is not None:
            return None
        self._keep(spec, agent, _REFILL_S)
        waiting = self._ready.get(spec.family, [])
        while waiting and waiting[-1].lost:
            self._discard_soon(waiting.pop())
        if not waiting:
            return None
        spare = waiting[-1]
        try:
            if isinstance(spare.held, private_folders.Hold) and not spare.held.pass_on(spec, agent.id):
                return None
        except OSError:
            self._discard_soon(waiting.pop())
            return None
        waiting.pop()
        spare.assign(Wanted.of(spec, agent))
        spare.sandbox.rename(spec.name)
        return spare

    def _discard_soon(self, spare: Live) -> None:
        task = asyncio.create_task(_discard(spare))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def count(self) -> int:
        """Return how many wait."""
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
        await asyncio.gather(*map(_discard, waiting), *self._ending)
        if used:
            self.sweep()


async def _discard(spare: Live) -> None:
    """End a spare that nobody took, and its folder with it."""
    held, spare.held = spare.held, None
    try:
        await spare.end()
    finally:
        if held is not None:
            held.abandon()
