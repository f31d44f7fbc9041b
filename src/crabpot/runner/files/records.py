"""Records on a stream between two machines: a header of JSON, and after that of a file its content in pieces.

The other end may be the agent's: what comes is bounded, and checked before it is used.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, BinaryIO

LARGEST_PIECE = 1 << 18
_LARGEST_HEADER = 64 << 10
_SIZE = struct.Struct("!I")


class Broken(Exception):
    """What came is no record, leads elsewhere, or is too much."""


def put(writing: BinaryIO, record: Mapping[str, Any]) -> None:
    """Write one header, and have it sent."""
    write(writing, record)
    writing.flush()


def write(writing: BinaryIO, record: Mapping[str, Any]) -> None:
    """Write one header."""
    _write(writing, json.dumps(record).encode("ascii"))


def write_content(writing: BinaryIO, pieces: Iterator[bytes]) -> None:
    """Write the content that belongs to a header, none of its pieces larger than the largest."""
    for piece in pieces:
        _write(writing, piece)
    writing.write(_SIZE.pack(0))


def header(reading: BinaryIO) -> dict[str, Any]:
    """Read one header; EOFError at the end of the stream."""
    size = _size(reading)
    if size > _LARGEST_HEADER:
        raise Broken("a header is too long")
    try:
        found = json.loads(_exactly(reading, size))
    except (ValueError, RecursionError):
        raise Broken("a header is not JSON") from None
    if not isinstance(found, dict):
        raise Broken("a header is not an object")
    if found.get("kind") == "failed":
        raise Broken(str(found.get("why"))[:500])
    return found


def content(reading: BinaryIO) -> Iterator[bytes]:
    """Yield the pieces that follow a header."""
    while size := _size(reading):
        if size > LARGEST_PIECE:
            raise Broken("a piece is too long")
        yield _exactly(reading, size)


def _size(reading: BinaryIO) -> int:
    size: int = _SIZE.unpack(_exactly(reading, _SIZE.size))[0]
    return size


def _exactly(reading: BinaryIO, size: int) -> bytes:
    data = reading.read(size)
    if data is None or len(data) < size:
        raise EOFError("the stream ended")
    return data


def _write(writing: BinaryIO, data: bytes) -> None:
    writing.write(_SIZE.pack(len(data)))
    writing.write(data)
