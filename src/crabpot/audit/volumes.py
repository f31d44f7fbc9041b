"""Finished volumes of the log: compressed JSON lines in a folder beside the database, in the format of an export."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.audit.chain import text_of
from crabpot.errors import CrabpotError
from crabpot.state.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = tuple[int, str, str]  # number, text, hash

FOLDER = "audit"

_SUFFIX = ".jsonl.gz"
# Text this regular shrinks eightfold even at the fastest level, and a gateway waits meanwhile.
_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Volume:
    """A file that holds the records from one number to another."""

    first: int
    last: int
    path: str

    def rows(self) -> Iterator[Row]:
        """Yield its records; CrabpotError if the file is damaged."""
        try:
            with gzip.open(self.path, "rt", encoding="utf-8") as stream:
                for line in stream:
                    yield row_of(json.loads(line))
        except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
            raise CrabpotError(f"the volume {self.path} of the audit log cannot be read: {error}") from None


def shown(row: Row) -> dict[str, Any]:
    """Return a record with its number and hash, as `audit` prints and exports it."""
    return {"number": row[0], **json.loads(row[1]), "hash": row[2]}


def row_of(record: dict[str, Any]) -> Row:
    """Split a shown record into its row, with the text in its one canonical form so that its hash can be checked."""
    number, digest = record.pop("number"), record.pop("hash")
    if type(number) is not int or type(digest) is not str:
        raise ValueError("a record without its number and hash")
    return number, text_of(record), digest


def listed(folder: str) -> list[Volume]:
    """List the volumes, the oldest first."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = os.listdir(folder)
    found = []
    for name in names:
        first, _, last = name.removesuffix(_SUFFIX).partition("-")
        if name.endswith(_SUFFIX) and first.isdigit() and last.isdigit():
            found.append(Volume(first=int(first), last=int(last), path=os.path.join(folder, name)))
    return sorted(found)


def write(folder: str, first: int, last: int, rows: Iterable[Row]) -> None:
    """Write a volume of at least one record atomically, and sync it to disk."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{first:012}-{last:012}{_SUFFIX}")
    # One name for the draft: what a killed gateway left of a large volume is written over, not added to.
    with replacing(path, draft=f"{path}.part") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=_LEVEL) as packed:
            for row in rows:
                record = shown(row)
                packed.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        raw.flush()
        # Its age is that of its last record, so that nobody need unpack it to know.
        os.utime(raw.fileno(), (record["time"], record["time"]))
    _sync(folder)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
