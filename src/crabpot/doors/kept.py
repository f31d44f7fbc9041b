"""What is kept in a state folder, private folders and layers, as doors show it: remembered between two looks."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.layers.store import LayerStore
from crabpot.layers.store import used as last_used
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.spares import PREFIX as SPARE
from crabpot.spec.naming import LAYERS

if TYPE_CHECKING:
    from crabpot.layers.layer import Layer

    Row = dict[str, Any]
    # By scope key.
    Rows = dict[str, Row]

# When something was last used may be this old. Earlier than that it is read again for those who ask next.
_OLD_S, _OLDER_S = 1.0, 2.0
# Comparing more names, or reading more notes of new ones, takes longer than a thread. Where there are more names, what
# came or went may be as old as when it was used: an agent that makes and leaves folders would have all read each time.
_MOST_NAMES, _MOST_NEW = 1000, 8


class _Read(NamedTuple):
    """What was read, when, and how both folders were then."""

    at: float
    changed: tuple[int | None, int | None]
    # By name.
    folders: Rows
    layers: Rows
    rows: Rows


class Kept:
    """What is kept in one state folder. What came or went is seen at once; all is read again after a second or two.

    Of more than a thousand folders, what came or went is seen by then.

    A thread that makes many system calls waits for the busy loop after each, and an agent may leave a hundred folders.
    """

    def __init__(self, state: str) -> None:
        self._state = state
        self._read: _Read | None = None
        self._reading: asyncio.Future[None] | None = None

    async def now(self) -> Rows:
        """Return the rows, without a thread where little has changed since the last look."""
        known = self.known()
        if known is None:
            return await asyncio.to_thread(self.rows)
        if self._age_s() > _OLD_S and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().run_in_executor(None, self._read_ahead)
        return known

    def rows(self) -> Rows:
        """Read them all. Run it in a thread: it looks at a file of every folder."""
        # What comes or goes meanwhile is found by the next look.
        at, changed = time.monotonic(), self._changed()
        folders = {kept.name: _folder(kept) for kept in private_folders.listed(self._state) if _is_shown(kept.name)}
        layers = {layer.scope_key: _layer(layer) for layer in LayerStore(self._state).all()}
        self._read = _Read(at, changed, folders, layers, _by_key(folders) | layers)
        return self._read.rows

    def _read_ahead(self) -> None:
        # Whoever asks next is told what is wrong.
        with suppress(OSError):
            self.rows()

    def known(self) -> Rows | None:
        """Return the rows if they are in memory but for a few that came or went; None if they must be read."""
        read = self._read
        if read is None or self._age_s() > _OLDER_S:
            return None
        changed = self._changed()
        if changed != read.changed:
            folders = self._followed(read) if changed[1] == read.changed[1] else None
            if folders is None:
                return None
            rows = read.rows if folders is read.folders else _by_key(folders) | read.layers
            read = self._read = read._replace(changed=changed, folders=folders, rows=rows)
        return read.rows

    def _followed(self, read: _Read) -> Rows | None:
        """Return the private folders as they are now, with only the new ones read; None if those are too many."""
        if len(read.folders) > _MOST_NAMES:
            return read.folders
        # Spares come and go in the same place.
        names = set(filter(_is_shown, private_folders.names(self._state)))
        new = names - read.folders.keys()
        if len(names) > _MOST_NAMES or len(new) > _MOST_NEW:
            return None
        if len(names) == len(read.folders) and not new:
            return read.folders
        found = filter(None, (private_folders.find(self._state, name) for name in new))
        stayed = {name: row for name, row in read.folders.items() if name in names}
        return stayed | {kept.name: _folder(kept) for kept in found}

    def _age_s(self) -> float:
        return 0.0 if self._read is None else time.monotonic() - self._read.at

    def _changed(self) -> tuple[int | None, int | None]:
        """Return what is another whenever something came or went in either folder."""
        at = os.path.join
        return _mtime_ns(at(self._state, private_folders.FOLDER)), _mtime_ns(at(self._state, LAYERS))


def _is_shown(name: str) -> bool:
    return not name.startswith(SPARE)


def _mtime_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return None


def _by_key(folders: Rows) -> Rows:
    return {str(row["scope_key"]): row for row in folders.values()}


def _folder(kept: private_folders.Kept) -> Row:
    return {
        "name": kept.name,
        "scope_key": kept.scope_key,
        "agent": kept.agent,
        "state": "kept",
        "created": kept.created,
        "used": kept.used,
    }


def _layer(layer: Layer) -> Row:
    return {
        "name": layer.name,
        "scope_key": layer.scope_key,
        "agent": layer.agent,
        "state": "kept",
        "created": layer.created,
        "used": last_used(layer),
        "session": layer.session,
        "folder": layer.folder,
    }
