"""The hash chain that reveals a removed or changed record: each hash covers the record and the hash before it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.wording import counted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

START = "0" * 64
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class Entry(NamedTuple):
    """A record to append, with its text where somebody needed that before."""

    record: dict[str, Any]
    text: str | None = None


def text_of(record: Mapping[str, Any]) -> str:
    """Return a record in its one canonical form."""
    return _CANONICAL(record)


def link(before: str, text: str) -> str:
    """Return the hash of a record that follows another."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def append(connection: sqlite3.Connection, group: list[Entry]) -> list[tuple[int, str, str]]:
    """Append records in the open transaction, and return their rows: number, text and hash."""
    row = connection.execute("SELECT number, hash FROM head").fetchone()
    number, digest = row or (0, START)
    rows = []
    for record, known in group:
        text = text_of(record) if known is None else known
        number, digest = number + 1, link(digest, text)
        rows.append((number, text, digest))
    connection.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
    connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (number, digest))
    return rows


def first_break(
    rows: Iterable[tuple[int, str, str]], head: tuple[int, str], start: tuple[int, str] = (0, START)
) -> str | None:
    """Return where the chain of (number, text, hash) first breaks, or None.

    `start` is what the first must follow, `head` what the last must be.
    """
    number, before = start
    for found, text, digest in rows:
        number += 1
        if found > number:
            return f"record {number} is missing"
        if found < number or link(before, text) != digest:
            return f"record {found} was changed or inserted"
        before = digest
    if number < head[0]:
        missing = head[0] - number
        return f"{counted(missing, 'record')} {'is' if missing == 1 else 'are'} missing at the end"
    return None if (number, before) == head else "the last record is not the one that the head names"
