"""Review: find the layer of a session, and do with its changes what a person says, on the record."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.audit.records import of_review
from crabpot.errors import LayerBusy, LayerError
from crabpot.host_commands.review import diffing, person, sides
from crabpot.host_commands.review.holding import host_git, placed_as
from crabpot.layers import content as contents
from crabpot.layers.changes import applying, discarding, reading, recovery
from crabpot.layers.changes.choosing import limited
from crabpot.layers.store import LayerStore

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabpot.audit.store import AuditLog
    from crabpot.host_commands.review.holding import Holder
    from crabpot.layers.layer import Layer
    from crabpot.settings import Settings


@dataclass(slots=True, kw_only=True)
class Review:
    """The layers of one state folder, and what a person does with them."""

    settings: Settings
    state: str
    audit: AuditLog
    holder: Holder
    by: str
    """Who does it, for the audit log."""
    store: LayerStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = LayerStore(self.state)

    def layer(self, session: str | None, folder: str | None = None) -> Layer | None:
        """Return the layer of a session, or the one over a folder, else main's; None if nothing changed yet.

        LayerError if the session is not under review at all.
        """
        found = None if session is not None or folder is None else self.store.find_by_folder(folder)
        if found is not None:
            return found
        key = session or f"agent:{self.settings.default_agent}:main"
        agent, placed = placed_as(self.settings, key)
        found = None if placed.scope_key is None else self.store.find(placed.scope_key)
        if found is None and (agent.sandbox.workspace != "review" or placed.scope_key is None):
            own = f'its workspace is "{agent.sandbox.workspace}" ({agent.source("sandbox.workspace")})'
            raise LayerError(
                f"the session {key} is not under review: {'it runs on the host' if placed.scope_key is None else own}"
            )
        return found

    async def listed(self, layer: Layer, paths: Collection[str] = ()) -> dict[str, Any]:
        """Return the changes in the shape of `changes list --json`."""
        await self._recover(layer)
        found = limited(await asyncio.to_thread(reading.changes, layer), paths)
        self._seen(layer)
        return {
            "session": layer.session,
            "folder": layer.folder,
            "mechanism": layer.mechanism,
            "files": [one.as_json() for one in found],
            "commits": [] if paths else await self.holder.commits(layer),
        }

    async def diff(self, layer: Layer, paths: Collection[str] = ()) -> bytes:
        """Return the changes as a unified diff, from the host to the layer."""
        await self._recover(layer)
        agent, _ = placed_as(self.settings, layer.session)
        with reading.both(layer) as (content, host):
            found = limited(await asyncio.to_thread(reading.judged, layer, content, host), paths)
            self._seen(layer)
            if not found:
                return b""
            theirs = diffing.side_of(host, [(one.path, one.old) for one in found])
            ours = diffing.side_of(content, [(one.path, one.new) for one in found])
            return await diffing.diff(layer, theirs, ours, host_git(self.state, agent, layer))

    async def sides(self, layer: Layer, paths: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return the three sides of each conflict: where the agent began, what the host made of it, and the agent."""
        agent, _ = placed_as(self.settings, layer.session)
        by = host_git(self.state, agent, layer)
        with reading.both(layer) as (content, host):
            judged = limited(await asyncio.to_thread(reading.judged, layer, content, host), paths)
            return [await sides.of_conflict(layer, one, content, host, by) for one in judged if one.conflict]

    async def apply(self, layer: Layer, paths: Collection[str] = (), *, gated: bool = False) -> dict[str, Any]:
        """Apply changes, and bring commits as branches; return the shape of `changes apply --json`."""
        await self._intend(layer, "apply", paths, gated=gated)
        branches = [] if paths else await self.holder.land(layer)
        await self.holder.release(layer)
        with self.store.hold(layer):
            done = await asyncio.to_thread(applying.apply, layer, paths, gated=gated)
        return self._did(layer, "apply", done.as_json(branches))

    async def undo(self, layer: Layer, paths: Collection[str] = ()) -> dict[str, Any]:
        """Undo the last apply, or some paths of it; return the same shape."""
        await self._intend(layer, "undo", paths)
        await self.holder.release(layer)
        with self.store.hold(layer):
            done = await asyncio.to_thread(applying.undo, layer, paths)
        return self._did(layer, "undo", done.as_json())

    async def discard(self, layer: Layer, paths: Collection[str] = ()) -> dict[str, Any]:
        """Forget the layer, or what it has at some paths."""
        await self._intend(layer, "discard", paths)
        await self.holder.release(layer)
        with self.store.hold(layer):
            if paths:
                gone = await asyncio.to_thread(discarding.discard, layer, paths)
                return self._did(layer, "discard", {"discarded": gone})
            await asyncio.to_thread(recovery.recover, layer)
            gone = [one.path for one in await self._readable(layer)]
        await asyncio.to_thread(self.store.forget, layer)
        return self._did(layer, "discard", {"discarded": gone})

    def note(self, layer: Layer) -> str | None:
        """Return why commits of a layer cannot become branches, or None."""
        return person.problem_with(layer.folder)

    async def _readable(self, layer: Layer) -> list[Any]:
        """Return the changes of a layer, or nothing: one whose folder is gone can be discarded too."""
        with suppress(LayerError):
            return await asyncio.to_thread(reading.changes, layer)
        return []

    async def _recover(self, layer: Layer) -> None:
        with suppress(LayerBusy), self.store.hold(layer):
            await asyncio.to_thread(recovery.recover, layer)

    def _seen(self, layer: Layer) -> None:
        with open(os.path.join(layer.path, contents.SEEN), "w", encoding="ascii"):
            pass

    async def _intend(self, layer: Layer, action: str, paths: Collection[str], *, gated: bool = False) -> None:
        asked = {"paths": sorted(paths), "gated": gated}
        self.audit.record(of_review(layer.session, layer.agent, action, self.by, folder=layer.folder, asked=asked))
        await self.audit.durable()

    def _did(self, layer: Layer, action: str, done: dict[str, Any]) -> dict[str, Any]:
        self.audit.record(of_review(layer.session, layer.agent, action, self.by, folder=layer.folder, done=done))
        return done
