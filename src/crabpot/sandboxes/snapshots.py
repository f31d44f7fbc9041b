"""Keep what a session has written under a name, put it back, and give copies of it to other sessions.

From a sandbox that runs, everything in it stands still for as long as the copying takes.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.audit.records import of_snapshot
from crabpot.decide import placement, sessions
from crabpot.errors import LayerError
from crabpot.layers import snapshots, trees
from crabpot.layers.changes import exchange
from crabpot.layers.layer import Layer
from crabpot.layers.snapshots import SnapshotStore
from crabpot.layers.store import LayerStore
from crabpot.model import Place
from crabpot.sandboxes import private_folders, under_review
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.audit.store import AuditLog
    from crabpot.layers.snapshots import Snapshot
    from crabpot.sandboxes.execution import Execution
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.spec import SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    session: str
    agent: AgentSettings
    spec: SandboxSpec


class Snapshots:
    """The snapshots of one gateway's sessions, and forks of them."""

    def __init__(self, execution: Execution, settings: Settings, audit: AuditLog, *, by: str = "python") -> None:
        self._execution = execution
        self._settings = settings
        self._audit = audit
        self._by = by
        self._layers = LayerStore(execution.around.state)
        self._kept = SnapshotStore(execution.around.state)

    def all(self, session: str) -> list[Snapshot]:
        """Return the snapshots of a session's scope, the oldest first."""
        return self._kept.all(self._scope(session).spec.scope_key)

    async def save(self, session: str, name: str) -> Snapshot:
        """Keep what a session has written under a name; LayerError says why that cannot be."""
        scope = self._scope(session)
        async with self._still(scope) as source:
            made = await asyncio.to_thread(self._kept.save, scope.spec.scope_key, name, source)
        self._record(scope, "save", name=name)
        return made

    async def remove(self, session: str, name: str) -> None:
        """Forget a snapshot."""
        scope = self._scope(session)
        await asyncio.to_thread(self._kept.remove, scope.spec.scope_key, name)
        self._record(scope, "remove", name=name)

    async def restore(self, session: str, name: str) -> None:
        """Put a snapshot in the place of what a session has written since; ends its sandbox if that is idle."""
        scope = self._scope(session)
        found = self._kept.find(scope.spec.scope_key, name)
        await self._execution.release_layer(scope.spec.scope_key)
        await asyncio.to_thread(self._restore, found, scope)
        self._record(scope, "restore", name=name)

    def _restore(self, found: Snapshot, scope: _Scope) -> None:
        layer = None if scope.spec.layer is None else self._layers.find(scope.spec.scope_key)
        if scope.spec.layer is None:
            self._put(found.files, scope, replace=True)
        elif layer is None:
            self._begin(found, scope)
        else:
            snapshots.restore_layer(self._layers, found, layer)

    def _begin(self, found: Snapshot, scope: _Scope) -> None:
        kept = snapshots.layer_of(found)
        if kept.folder != scope.spec.workspace:
            raise LayerError(f"the snapshot {found.name} is of {kept.folder}, not of {scope.spec.workspace}")
        self._fork(kept, scope)

    async def fork(self, session: str, *others: str) -> None:
        """Copy what this session has written to each of the others, which have written nothing yet."""
        scope = self._scope(session)
        wanted = [self._scope(other) for other in others]
        for other in wanted:
            self._check(scope, other)
        async with self._still(scope) as source:
            for other in wanted:
                if isinstance(source, Layer):
                    await asyncio.to_thread(self._fork, source, other)
                else:
                    await asyncio.to_thread(self._put, source, other, replace=False)
                self._record(scope, "fork", to=other.session)

    def _fork(self, source: Layer, scope: _Scope) -> None:
        snapshots.fork_layer(
            self._layers,
            source,
            scope_key=scope.spec.scope_key,
            session=under_review.session_of(scope.spec, scope.agent),
            agent=scope.agent.id,
        )

    def _check(self, scope: _Scope, other: _Scope) -> None:
        if other.spec.scope_key == scope.spec.scope_key:
            raise LayerError(f"{other.session} shares the sandbox of {scope.session}; a fork needs a scope of its own")
        alike = scope.spec.layer is None or scope.spec.workspace == other.spec.workspace
        if (other.spec.layer is None) != (scope.spec.layer is None) or not alike:
            raise LayerError(f"{other.session} works on another folder than {scope.session}, by its configuration")
        if self._has_files(other.spec):
            raise LayerError(f"{other.session} has files of its own already; fork to a new session, or discard them")

    def _has_files(self, spec: SandboxSpec) -> bool:
        if spec.layer is not None:
            return self._layers.find(spec.scope_key) is not None
        with suppress(FileNotFoundError):
            return bool(os.listdir(spec.workspace))
        return False

    def _put(self, files: str, scope: _Scope, *, replace: bool) -> None:
        """Make a copy of files the private folder of a scope."""
        held = private_folders.take(self._execution.around.state, scope.spec, scope.agent.id)
        try:
            place = scope.spec.workspace
            draft = f"{place}.{os.urandom(4).hex()}{private_folders.DRAFT}"
            try:
                trees.copy(files, draft)
            except BaseException:
                with suppress(OSError):
                    remove_tree(draft)
                raise
            if replace and os.path.lexists(place):
                # In one step: a process killed here leaves the one or the other.
                exchange.swap_paths(draft, place)
                remove_tree(draft)
            else:
                os.rename(draft, place)
        finally:
            held.release()

    @asynccontextmanager
    async def _still(self, scope: _Scope) -> AsyncIterator[Layer | str]:
        """Let nobody write what a scope has written, and yield its layer or the path of its private folder."""
        spec, fleet = scope.spec, self._execution.fleet
        source: Layer | str | None = spec.workspace if os.path.isdir(spec.workspace) else None
        if spec.layer is not None:
            source = self._layers.find(spec.scope_key)
        if source is None:
            raise LayerError(f"{scope.session} has written nothing yet")
        key = (Place.SANDBOX, spec.scope_key)
        if found := [live for live in fleet.listed() if live.key == key]:
            async with fleet.frozen(lambda live: live.key == key):
                await found[0].bring_back()
                yield source
        elif isinstance(source, Layer):
            with self._layers.hold(source):
                yield source
        else:
            held = private_folders.take(self._execution.around.state, spec, scope.agent.id)
            try:
                yield source
            finally:
                held.release()

    def _record(self, scope: _Scope, action: str, **what: str) -> None:
        self._audit.record(of_snapshot(scope.session, scope.agent.id, action, self._by, **what))

    def _scope(self, session: str) -> _Scope:
        key = sessions.parse(session, default_agent=self._settings.default_agent)
        agent = self._settings.agent(key.agent)
        placed = placement.decide(key, agent)
        if placed.answer.scope_key is None:
            raise LayerError(f"{session} runs on the host, of which there are no snapshots: {placed.because}")
        spec, _ = self._execution.describe(agent, placed.answer.scope_key)
        if spec.layer is None and not spec.private:
            raise LayerError(
                f'{session} works in {spec.workspace} itself; snapshots and forks need workspace: "review" or "none"'
            )
        return _Scope(session=session, agent=agent, spec=spec)
