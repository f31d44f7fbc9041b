"""Hold the layer of a sandbox whose folder is under review: found or made, locked alone, and stamped."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.errors import LayerBusy, LayerError
from crabpot.layers import copying, history, stamps
from crabpot.layers.changes.entries import note
from crabpot.layers.changes.recovery import recover
from crabpot.layers.content import is_empty, is_seen, problem_with_size
from crabpot.layers.store import LayerStore, used
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.live import START_S

if TYPE_CHECKING:
    from crabpot.backends.registry import Registry
    from crabpot.layers.layer import Layer
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.spec import SandboxSpec

_POLL_S = 0.005


class LayerHold:
    """A layer that one sandbox has alone, from before its mount to after it."""

    def __init__(self, store: LayerStore, layer: Layer, handle: int) -> None:
        self._store = store
        self.layer = layer
        self._handle = handle
        self._turn = threading.Lock()

    def look(self) -> None:
        """Note what changed since the last look."""
        with self._turn, suppress(LayerError, OSError):
            if self._handle >= 0:
                history.look(self.layer)

    def abandon(self) -> None:
        """Release it because its sandbox did not open, and forget it if nothing is in it."""
        empty = is_empty(self.layer)
        self.release()
        if empty:
            with suppress(LayerError):
                self._store.forget(self.layer)

    def renew(self) -> None:
        """Note that from now on the sandbox sees the host's folder as it is."""
        note(self.layer)
        stamps.opened(self.layer.path)

    def release(self) -> None:
        """Note the end of the mount and release it; safe to call twice."""
        self.look()
        with self._turn:
            if self._handle >= 0:
                stamps.closed(self.layer.path)
                with suppress(LayerError, OSError):
                    note(self.layer)
                os.close(self._handle)
                self._handle = -1


async def hold(store: LayerStore, registry: Registry, spec: SandboxSpec, agent: AgentSettings) -> LayerHold:
    """Find or make the layer of a scope and take it alone; LayerError says why it cannot be had."""
    layer = store.find(spec.scope_key)
    wrong = None if layer is None else _problem(layer, spec)
    if layer is not None and wrong is not None:
        if not is_empty(layer):
            what = f"crabpot changes apply|discard --session {layer.session}"
            raise LayerError(f"{wrong}, and this session's changes wait for a person: {what}")
        store.forget(layer)
        layer = None
    if layer is None:
        layer = await _make(store, registry, spec, agent)
    held = LayerHold(store, layer, await _lock(store, layer))
    try:
        await _prepare(layer, spec)
    except BaseException:
        held.abandon()
        raise
    return held


def _problem(layer: Layer, spec: SandboxSpec) -> str | None:
    if layer.folder != spec.workspace:
        return f"the layer of this session is over {layer.folder}, not over {spec.workspace}"
    return layer.problem_with_folder()


async def _make(store: LayerStore, registry: Registry, spec: SandboxSpec, agent: AgentSettings) -> Layer:
    mechanism = await registry.mechanism(spec)
    return store.make(
        scope_key=spec.scope_key,
        session=session_of(spec, agent),
        agent=agent.id,
        folder=spec.workspace,
        mechanism=mechanism,
    )


def session_of(spec: SandboxSpec, agent: AgentSettings) -> str:
    """Return a session whose layer it is, to name it by: its own, or the main one of those that share it."""
    own = agent.sandbox.scope == "session"
    return spec.scope_key.removeprefix("session:") if own else f"agent:{agent.id}:main"


async def _lock(store: LayerStore, layer: Layer) -> int:
    """Take it once whoever has it lets go: a sandbox that this one replaces may still be ending."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            return store.lock(layer)
        except LayerBusy:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_POLL_S)


async def _prepare(layer: Layer, spec: SandboxSpec) -> None:
    await asyncio.to_thread(recover, layer)
    if layer.mechanism == "copy" and not copying.is_complete(layer):
        await asyncio.to_thread(copying.copy_folder, layer)
    problem = await asyncio.to_thread(problem_with_size, layer, spec.limits.disk)
    if problem is not None:
        raise LayerError(problem)
    stamps.opened(layer.path)


def prune(state: str, settings: Settings, *, now: float) -> list[str]:
    """Forget the layers that are stale by their agent's settings, and return their names.

    One in use stays, and so does one whose changes nobody looked at.
    """
    store, gone = LayerStore(state), []
    for layer in _stale(store, settings, now):
        with suppress(LayerError, OSError):
            if not _waits(layer):
                store.forget(layer)
                gone.append(layer.name)
    store.sweep()
    return gone


def unseen(state: str, settings: Settings, *, now: float) -> list[Layer]:
    """Return the layers that are stale but stay: their changes wait for somebody to look at them."""
    return [layer for layer in _stale(LayerStore(state), settings, now) if _waits(layer)]


def _waits(layer: Layer) -> bool:
    """Return whether a layer holds changes that nobody looked at; so does one that cannot be read, for all we know."""
    try:
        return not (is_empty(layer) or is_seen(layer))
    except (LayerError, OSError):
        return True


def _stale(store: LayerStore, settings: Settings, now: float) -> list[Layer]:
    def is_old(layer: Layer) -> bool:
        keep = settings.agent(layer.agent).sandbox.prune
        return private_folders.is_stale(keep, used=used(layer), made=layer.created, now=now)

    return [layer for layer in store.all() if is_old(layer)]
