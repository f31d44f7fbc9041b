"""Snapshots: what a session had written, kept under a name; and copies of it for other sessions.

A snapshot is of files: the layer alone where the folder is under review, else the private folder. So it takes as long
as there are changes, and whatever is the same is shared.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.layers import copying, history, stamps, trees
from crabpot.layers import layer as layers
from crabpot.spec.naming import sandbox_name
from crabpot.spec.spec import WORK
from crabpot.state.files import write_whole
from crabpot.state.ownership import make_own
from crabpot.state.removal import remove_tree
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.layer import Layer
    from crabpot.layers.store import LayerStore

FOLDER = "snapshots"
_NOTE, _FILES = "snapshot.json", "files"
_DRAFT, _ABANDONED_S = ".draft", 86_400
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LARGEST_NOTE = 64 * 1024
# What belongs to a layer beside its content: how it came to be, but not what is under way in it.
_BESIDE = (copying.BASE, "entered.json", "applied.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One snapshot of one scope; `folder` is the one under review, None for a private folder."""

    name: str
    path: str
    scope_key: str
    folder: str | None
    created: float

    def as_json(self) -> dict[str, Any]:
        """Return the shape that doors show."""
        return {"name": self.name, "scope_key": self.scope_key, "folder": self.folder, "created": self.created}

    @property
    def files(self) -> str:
        """Return where its layer, or its files, lie."""
        return os.path.join(self.path, _FILES)


class SnapshotStore:
    """The snapshots that lie under one state folder, by scope."""

    def __init__(self, state: str) -> None:
        self._folder = os.path.join(os.path.realpath(state), FOLDER)

    def all(self, scope_key: str) -> list[Snapshot]:
        """Return the snapshots of a scope, the oldest first."""
        above = self.folder_of(scope_key)
        try:
            names = [name for name in os.listdir(above) if not name.endswith(_DRAFT)]
        except FileNotFoundError:
            return []
        found = [one for name in names if (one := _read(os.path.join(above, name), scope_key)) is not None]
        return sorted(found, key=lambda one: one.created)

    def find(self, scope_key: str, name: str) -> Snapshot:
        """Return one by name; LayerError names those that there are."""
        found = {one.name: one for one in self.all(scope_key)}
        if name not in found:
            known = ", ".join(found) or "it has none"
            raise LayerError(f"{scope_key} has no snapshot {name!r} ({known})")
        return found[name]

    def save(self, scope_key: str, name: str, source: Layer | str) -> Snapshot:
        """Keep a layer, or the private folder at a path, under a name; LayerError if that is taken or cannot be one."""
        if not _NAME.fullmatch(name):
            raise LayerError(f"{name!r} cannot name a snapshot: letters, digits and . _ - , at most 64 of them")
        above = self.folder_of(scope_key)
        make_own(above)
        path = os.path.join(above, name)
        if os.path.lexists(path):
            raise LayerError(f"there is a snapshot {name!r} already; remove it, or take another name")
        made = Snapshot(
            name=name,
            path=path,
            scope_key=scope_key,
            folder=None if isinstance(source, str) else source.folder,
            created=time.time(),
        )
        _sweep(above)
        draft = f"{path}.{os.urandom(4).hex()}{_DRAFT}"
        with _removed_on_failure(draft):
            os.mkdir(draft, 0o700)
            if isinstance(source, str):
                trees.copy(source, os.path.join(draft, _FILES))
            else:
                copy_layer(source, os.path.join(draft, _FILES), source)
            write_whole(os.path.join(draft, _NOTE), json.dumps(made.as_json()))
            os.rename(draft, path)
        return made

    def remove(self, scope_key: str, name: str) -> None:
        """Remove one; LayerError if there is none."""
        found = self.find(scope_key, name)
        gone = f"{found.path}.{os.urandom(4).hex()}{_DRAFT}"
        os.rename(found.path, gone)
        remove_tree(gone)

    def folder_of(self, scope_key: str) -> str:
        """Return where the snapshots of a scope lie."""
        return os.path.join(self._folder, sandbox_name(scope_key))


def _sweep(above: str) -> None:
    """Remove what interrupted savings and removals left long ago."""
    for entry in list(os.scandir(above)):
        if entry.name.endswith(_DRAFT) and time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_S:
            with suppress(OSError):
                remove_tree(entry.path)


def forget_all(state: str, scope_key: str) -> None:
    """Remove every snapshot of a scope."""
    with suppress(FileNotFoundError):
        remove_tree(SnapshotStore(state).folder_of(scope_key))


def copy_layer(source: Layer, target: str, layer: Layer) -> None:
    """Copy a layer that nobody writes to a path, as the layer of another scope, or as what a snapshot keeps."""
    os.mkdir(target, 0o711 if os.geteuid() == 0 else 0o700)
    trees.copy(source.content, os.path.join(target, os.path.basename(source.content)))
    if source.mechanism == "overlay":
        os.mkdir(os.path.join(target, WORK), 0o700)
    for name in _BESIDE:
        with suppress(FileNotFoundError), open(os.path.join(source.path, name), encoding="utf-8") as file:
            write_whole(os.path.join(target, name), file.read())
    stamps.adopt(target, source.path)
    # All that was copied was born by now.
    layers.write(replace(layer, copied_ns=time.time_ns()), target)


def fork_layer(store: LayerStore, source: Layer, *, scope_key: str, session: str, agent: str) -> Layer:
    """Make a copy of a layer, which nobody writes, the layer of another scope; LayerError if that has one."""
    draft, path = store.draft(scope_key), store.path_of(scope_key)
    made = replace(
        source,
        name=os.path.basename(path),
        path=path,
        scope_key=scope_key,
        session=session,
        agent=agent,
        created=time.time(),
    )
    with _removed_on_failure(draft):
        copy_layer(source, draft, made)
    return store.publish(draft, made)


def layer_of(snapshot: Snapshot) -> Layer:
    """Return the layer that a snapshot keeps."""
    kept = layers.read(snapshot.files)
    if kept is None:
        raise LayerError(f"the snapshot {snapshot.name} is of a private folder")
    return kept


def restore_layer(store: LayerStore, snapshot: Snapshot, layer: Layer) -> None:
    """Put what a snapshot kept in the place of a layer that nobody uses; LayerBusy if somebody does."""
    kept = layer_of(snapshot)
    if (kept.folder, kept.mechanism) != (layer.folder, layer.mechanism):
        raise LayerError(f"the snapshot {snapshot.name} is of another folder, or was made in another way")
    draft = store.draft(layer.scope_key)
    with _removed_on_failure(draft):
        copy_layer(kept, draft, replace(layer, created=time.time()))
        history.carry(layer, replace(layer, path=draft))
        store.replace(layer, draft)


@contextmanager
def _removed_on_failure(folder: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            remove_tree(folder)
        raise


def _read(path: str, scope_key: str) -> Snapshot | None:
    """Return the snapshot at a path; one that cannot be read is none, nor is another scope's."""
    try:
        note: dict[str, Any] = json.loads(read_regular(os.path.join(path, _NOTE), most=_LARGEST_NOTE))
        found = Snapshot(
            name=os.path.basename(path),
            path=path,
            scope_key=str(note["scope_key"]),
            folder=None if note["folder"] is None else str(note["folder"]),
            created=float(note["created"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.scope_key == scope_key else None
