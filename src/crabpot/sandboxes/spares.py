"""Sandboxes kept ready: opened ahead of their first call, and given to the first session that wants one like them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.sandboxes import private_folders
from crabpot.spec.naming import private_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.sandboxes.live import Hold, Live, Wanted
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec

    Start = Callable[[SandboxSpec, AgentSettings, Hold | None], Awaitable[Live]]
    # The agent, and what its sandboxes have in common: a spare of one agent is never given to another.
    Family = tuple[str, str]

# No scope key makes such a name: theirs begin with "crabpot-".
PREFIX = "spare-"

_FIRST_CALLS: tuple[tuple[str, dict[str, str]], ...] = (("exec", {"command": ":"}), ("ls", {"path": "."}))
_FIRST_CALL_S = 10.0
# The call that took a spare comes first; another is opened when it is likely to be done.
_REFILL_S = 0.1
_NO_LIMIT = 1 << 30


class Spares:
    """Sandboxes by what they have in common: everything but whose they are."""

    def __init__(self, *, state: str, start: Start) -> None:
        self._state = state
        self._start = start
        # Where less memory is available, only spares that the configuration asks for are kept.
        self.least_memory_bytes = 1 << 30
        # Whether any are kept; a gateway for one call never does.
        self.begun = False
        self._by_default: set[Family] = set()
        self._ready: dict[Family, list[Live]] = {}
        self._filling: dict[Family, asyncio.Task[None]] = {}
        self._refills: dict[Family, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        # How many more sandboxes an agent may have, and all together, with spares not counted.
        self.room: Callable[[str], tuple[int, int]] = lambda _agent: (_NO_LIMIT, _NO_LIMIT)

    def begin(self, wanted: list[tuple[SandboxSpec, AgentSettings]], *, by_default: bool = False) -> None:
        """Begin to keep sandboxes ready, for these first, and no others; a gateway for one call never does.

        `by_default`: one for each of them where the configuration says nothing.
        """
        if wanted and not self.begun:
            self.sweep()
        self.begun = True
        families = {_family(spec, agent) for spec, agent in wanted}
        self._by_default = families if by_default else set()
        for family in self._ready.keys() - families:
            for spare in self._ready.pop(family):
                self._discard_soon(spare)
        for spec, agent in wanted:
            if spec.layer is None:
                self._keep(spec, agent)

    def _wanted(self, spec: SandboxSpec, agent: AgentSettings) -> int:
        """Return how many there should be like this one, as far as the limits leave room."""
        written, family = agent.source("sandbox.warm") != "default", _family(spec, agent)
        count = (
            agent.sandbox.warm
            if written or family not in self._by_default
            else int(_memory_bytes() >= self.least_memory_bytes)
        )
        own, together = self.room(agent.id)
        like_it = len(self._ready.get(family, ()))
        return min(count, own - self.count(agent.id) + like_it, together - self.count() + like_it)

    def _keep(self, spec: SandboxSpec, agent: AgentSettings) -> None:
        """Have as many like this one as its agent wants; a failure is left for the call that needs one to report."""
        family = _family(spec, agent)
        self._refills.pop(family, None)
        if family not in self._filling:
            task = asyncio.create_task(self._fill(spec, agent))
            self._filling[family] = task
            task.add_done_callback(lambda _: self._filling.pop(family, None))

    async def _fill(self, spec: SandboxSpec, agent: AgentSettings) -> None:
        ready = self._ready.setdefault(_family(spec, agent), [])
        with suppress(CrabpotError, OSError):
            while len(ready) < self._wanted(spec, agent):
                ready.append(await self._open(spec, agent))

    async def _open(self, spec: SandboxSpec, agent: AgentSettings) -> Live:
        """Open one whose runner has loaded the code of its tools, which it does at their first call."""
        name = f"{PREFIX}{os.urandom(8).hex()}"
        folder = private_folder(self._state, name) if spec.private else spec.workspace
        # The key names its agent: that is whose share of the machine it takes.
        own = spec.owned_by(f"agent:{agent.id}:{name}", name, folder)
        held = await private_folders.hold_alone(self._state, own, agent.id) if spec.private else None
        live = await self._start(own, agent, held)
        try:
            for tool, args in _FIRST_CALLS:
                await live.wire.call(tool, args, timeout_s=_FIRST_CALL_S)
        except BaseException:
            await _discard(live)
            raise
        return live

    def claim(self, wanted: Wanted) -> Live | None:
        """Take one over, private folder and all, and open another soon.

        None if there is none, or the session has a folder already.
        """
        spec, agent = wanted.spec, wanted.agent
        if not self.begun or spec is None:
            return None
        family = _family(spec, agent)
        # A layer belongs to one scope from its first mount on: no spare can have one yet.
        if spec.layer is not None or not (agent.sandbox.warm or family in self._by_default):
            return None
        if family not in self._refills:
            self._refills[family] = asyncio.get_running_loop().call_later(_REFILL_S, self._keep, spec, agent)
        waiting = self._ready.get(family, [])
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
        spare.assign(wanted)
        spare.sandbox.rename(spec.name)
        return spare

    def make_room(self, agent: str) -> None:
        """End as many as the limits leave no room for: a session comes before what nobody has asked for yet."""
        if not self._ready:
            return
        own, together = self.room(agent)
        # Those of the agent itself first.
        for family in sorted(self._ready, key=lambda one: one[0] != agent):
            waiting, whose = self._ready[family], family[0]
            while waiting and (self.count() > together or (whose == agent and self.count(agent) > own)):
                self._discard_soon(waiting.pop())

    def reap(self, stale: Callable[[Live], bool]) -> None:
        """End those that waited for too long; the next call of their kind has another opened."""
        for waiting in self._ready.values():
            for spare in [one for one in waiting if one.lost or stale(one)]:
                waiting.remove(spare)
                self._discard_soon(spare)

    def _discard_soon(self, spare: Live) -> None:
        task = asyncio.create_task(_discard(spare))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def count(self, agent: str | None = None) -> int:
        """Return how many wait, of an agent or of all."""
        return sum(len(waiting) for (whose, _), waiting in self._ready.items() if agent in (None, whose))

    def sweep(self) -> None:
        """Remove the folders of spares whose gateway died."""
        private_folders.remove(self._state, lambda kept: kept.name.startswith(PREFIX))

    async def close(self) -> None:
        """End those that wait, and leave nothing of them."""
        self.begun = False
        for refill in self._refills.values():
            refill.cancel()
        self._refills.clear()
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


def _family(spec: SandboxSpec, agent: AgentSettings) -> Family:
    return agent.id, spec.family


def _memory_bytes() -> int:
    """Return how much memory the machine could give; 0 where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = dict(line.split(":", 1) for line in file)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, LookupError):
        return 0


async def _discard(spare: Live) -> None:
    """End a spare that nobody took, and its folder with it."""
    held, spare.held = spare.held, None
    try:
        await spare.end()
    finally:
        if held is not None:
            held.abandon()
