"""The newest records of a log that is being written, spelled as a page gets them and kept ready for the next page."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from crabpot.audit.tables import opened
from crabpot.audit.volumes import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.audit.volumes import Row

# How many are kept, and how long they may be together: an agent chooses how long the arguments of its calls are.
_MOST, _MOST_CHARACTERS = 100, 1024**2


class Spelled(NamedTuple):
    """One record, with its number and hash, as JSON."""

    number: int
    digest: str
    text: str


class Recent:
    """What was written last. Nothing is kept until somebody has looked.

    The writer of this process adds what it committed. Another process may write the same log: at each look the head of
    the log says, by its number and hash, whether what is kept is still the end of it.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._view: sqlite3.Connection | None = None
        self._looking = threading.Lock()
        self._kept: tuple[Spelled, ...] = ()

    def add(self, rows: Iterable[Row]) -> None:
        """Keep what was committed, if it follows what is kept; else keep only that."""
        if self._view is None:
            return
        added = [_spelled(row) for row in rows]
        with self._looking:
            last = self._kept[-1].number if self._kept else 0
            if added and added[-1].number > last:
                before = self._kept if added[0].number == last + 1 else ()
                self._kept = _bounded((*before, *added))

    def last(self, count: int) -> tuple[Spelled, ...] | None:
        """Return the last records, oldest first, if so many are kept and nobody has written any others since."""
        if self._view is None or not self._looking.acquire(blocking=False):
            return None
        try:
            kept = self._kept
            return kept[-count:] if 0 < count <= len(kept) and self._head() == kept[-1][:2] else None
        finally:
            self._looking.release()

    def look(self) -> None:
        """Read what was written last, by whoever it was. Run it in a thread."""
        # A damaged log is reported by whoever reads the records that are damaged.
        with suppress(sqlite3.Error, ValueError, TypeError), self._looking:
            if self._view is None:
                self._view = opened(self._file, any_thread=True)
            rows = self._view.execute("SELECT number, text, hash FROM records ORDER BY number DESC LIMIT ?", (_MOST,))
            self._kept = _bounded([_checked(row) for row in rows.fetchall()][::-1])

    def _head(self) -> tuple[int, str] | None:
        assert self._view is not None
        with suppress(sqlite3.Error):
            found = self._view.execute("SELECT number, hash FROM head").fetchall()
            return found[0] if found else None
        return None

    def close(self) -> None:
        """Keep nothing, and look no more."""
        with self._looking:
            if self._view is not None:
                self._view.close()
            self._view, self._kept = None, ()


def _spelled(row: Row) -> Spelled:
    """Spell a record as `shown` would, without parsing what was spelled already."""
    number, text, digest = row
    return Spelled(number, digest, f'{{"number":{number},{text[1:-1]},"hash":"{digest}"}}')


def _checked(row: Row) -> Spelled:
    shown(row)
    return _spelled(row)


def _bounded(records: Iterable[Spelled]) -> tuple[Spelled, ...]:
    """Return as many of the last ones as may be kept."""
    found, size = [], 0
    for one in reversed([*records][-_MOST:]):
        size += len(one.text)
        if size > _MOST_CHARACTERS:
            break
        found.append(one)
    return tuple(found[::-1])
