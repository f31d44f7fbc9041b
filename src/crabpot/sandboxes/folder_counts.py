"""How many private folders and layers each agent has: never fewer than there are, and read only where need be.

An agent that invents sessions would otherwise fill the state folder, and with it every list of sandboxes. The count
costs an opening nothing: each one adds to an estimate, and only where that reaches the limit are the notes read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import suppress
from os.path import exists
from typing import TYPE_CHECKING

from crabpot.sandboxes import private_folders
from crabpot.sandboxes.capacity import too_many_folders
from crabpot.sandboxes.spares import PREFIX as SPARE
from crabpot.spec.naming import LAYERS

if TYPE_CHECKING:
    from crabpot.spec.spec import SandboxSpec

# An agent at its limit that calls again and again must not keep a thread busy with reading.
_AGAIN_S = 1.0
# A token for all agents may invent ids.
_MOST_AGENTS = 4096


class FolderCounts:
    """The counts of one state folder. Another gateway's folders are seen when the notes are read."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._counts: dict[str, int] = {}
        # For agents that have no count: all folders that there were at the first look. None before it.
        self._others: int | None = None
        # What was read last, and when.
        self._found: Counter[str] = Counter()
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    def takes(self, agent: str, most: int) -> bool:
        """Count one more that may be new, if its agent may certainly have it; what `check` is for otherwise."""
        count = self._counts.get(agent)
        if count is None or count >= most:
            return False
        self._counts[agent] = count + 1
        return True

    async def check(self, spec: SandboxSpec, agent: str, most: int) -> None:
        """Count one more, having read the notes where need be; SandboxUnavailable if there is no room for it."""
        if self._has_room(spec, agent, most):
            return
        if self._found[agent] < most or time.monotonic() - self._read_at >= _AGAIN_S:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            # Not awaited itself: a caller that gives up must not take the answer from the others.
            await asyncio.wait([self._reading])
            if self._has_room(spec, agent, most):
                return
        raise too_many_folders(agent, most)

    def _has_room(self, spec: SandboxSpec, agent: str, most: int) -> bool:
        if agent not in self._counts:
            if len(self._counts) >= _MOST_AGENTS:
                self._counts, self._others = {}, None
            self._counts[agent] = self._estimate()
        return self.takes(agent, most) or (private_folders.is_kept(spec) if spec.layer is None else exists(spec.layer))

    def _estimate(self) -> int:
        if self._others is None:
            self._others = len(private_folders.names(self._state))
            with suppress(FileNotFoundError):
                self._others += len(os.listdir(f"{self._state}/{LAYERS}"))
        return self._others

    async def _read(self) -> None:
        try:
            # Those that are being made meanwhile are counted on top: rather one too many than one too few.
            before = Counter(self._counts)
            self._found = await asyncio.to_thread(self._in_notes)
            self._counts = dict(self._found + (Counter(self._counts) - before))
            self._others = 0
        finally:
            self._read_at, self._reading = time.monotonic(), None

    def _in_notes(self) -> Counter[str]:
        from crabpot.layers.store import LayerStore  # noqa: PLC0415  most openings read nothing

        notes = private_folders.listed(self._state)
        found = Counter(kept.agent for kept in notes if not kept.name.startswith(SPARE))
        return found + Counter(layer.agent for layer in LayerStore(self._state).all())
