"""Hold the layer of a sandbox whose folder is under review: found or made, locked alone, and stamped."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.errors import LayerBusy, LayerError
from crabpot.layers import copying, stamps
from crabpot.layers.changes.entries import note
from crabpot.layers.changes.recovery import recover
from crabpot.layers.content import is_empty, size_of
from crabpot.sandboxes.live import START_S

if TYPE_CHECKING:
    from crabpot.backends.registry import Registry
    from crabpot.layers.layer import Layer
    from crabpot.layers.store import LayerStore
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec

_POLL_S = 0.005


class LayerHold:
    """A layer that one sandbox has alone, from before its mount to after it."""

    def __init__(self, store: LayerStore, layer: Layer, handle: int) -> None:
        self._store = store
        self.layer = layer
        self._handle = handle

    def abandon(self) -> None:
        """Release it because its sandbox did not open, and forget it if nothing is in it."""
        empty = is_empty(self.layer)
        self.release()
        if empty:
            with suppress(LayerError):
                self._store.forget(self.layer)

    def renew(self) -> None:
        """Note that from now on the sandbox sees the host's folder as it is."""
        stamps.opened(self.layer.path)

    def release(self) -> None:
        """Note the end of the mount and release it; safe to call twice."""
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
    session = spec.scope_key if agent.sandbox.scope == "session" else f"agent:{agent.id}:main"
    return store.make(
        scope_key=spec.scope_key, session=session, agent=agent.id, folder=spec.workspace, mechanism=mechanism
    )


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
    used = await asyncio.to_thread(size_of, layer)
    if used > spec.limits.disk:
        raise LayerError(
            f"the layer of {layer.session} holds {used} bytes, more than limits.disk ({spec.limits.disk}): "
            f"crabpot changes apply|discard --session {layer.session}"
        )
    stamps.opened(layer.path)
