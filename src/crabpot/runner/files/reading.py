"""Read files in constant memory: text by lines, anything else by bytes.

`lines` in a result counts the whole file. It is null for bytes, and where the end of the file lies more than SCAN_LIMIT
after what was requested: counting on would hold up every other call.
"""

from __future__ import annotations

import posix
from _codecs import utf_8_decode

from ..core import arguments
from ..core.arguments import invalid
from .context import failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator, Iterator

    from .context import Context, Location

CONTENT_LIMIT = 1 << 20
CHUNK = 512 << 10
SCAN_LIMIT = 16 << 20
_SHORT = 256

_REQUIRED = {"path": arguments.path}
_OPTIONAL = {
    "offset": arguments.whole(0),
    "limit": arguments.whole(0),
    "encoding": arguments.choice("utf-8", "base64"),
}


def read(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Return content up to CONTENT_LIMIT, cut after a whole line, or after a whole character of a giant line."""
    reading = _Reading(args, ctx, CONTENT_LIMIT)
    try:
        pieces = list(reading.pieces())
    except OSError as error:
        raise failed(error, reading.place) from None
    finally:
        posix.close(reading.fd)
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if reading.truncated and not reading.base64:
        line_end = content.rfind(b"\n") + 1
        content = content[: line_end or utf_8_decode(content, "strict", False)[1]]
    return {"data": reading.data(), "payload": content}


def stream_read(args: dict[str, Any], ctx: Context) -> Generator[bytes, None, dict[str, Any]]:
    """Yield content of any size in chunks; an empty one is a step of the search for the first line."""
    reading = _Reading(args, ctx, None)
    try:
        yield from reading.pieces()
        return reading.data()
    except OSError as error:
        raise failed(error, reading.place) from None
    finally:
        posix.close(reading.fd)


class _Reading:
    """A checked `read` call with its file open. Which part is wanted is decided piece by piece."""

    lines: int | None = None
    # Whether the cap was the reason to stop.
    truncated = False
    _ended = False

    def __init__(self, args: dict[str, Any], ctx: Context, cap: int | None) -> None:
        values = arguments.take("read", args, _REQUIRED, _OPTIONAL)
        self.base64 = values["encoding"] == "base64"
        offset: int | None = values["offset"]
        if offset == 0 and not self.base64:
            raise invalid("offset is 0; lines are counted from 1 (bytes, under encoding base64, from 0)")
        # How many lines, or bytes, to skip, and how many to give after those.
        self._skip = (offset or 0) if self.base64 else (offset or 1) - 1
        self._left: int | None = values["limit"]
        self._room = cap
        self.place = ctx.locate(values["path"])
        self.fd, state = ctx.open_regular(self.place)
        self._size = state.st_size

    def pieces(self) -> Iterator[bytes]:
        return self._bytes() if self.base64 else self._text()

    def data(self) -> dict[str, Any]:
        encoding = "base64" if self.base64 else "utf-8"
        return {"encoding": encoding, "size": self._size, "lines": self.lines, "truncated": self.truncated}

    def _chunk(self) -> bytes:
        # A buffer no larger than the file: a fresh half megabyte costs more than reading 4 KiB into a small one.
        wanted = self._size + 1 if 0 < self._size < CHUNK else CHUNK
        piece = posix.read(self.fd, wanted)
        # As long as it was said to be, and asked for more: there is no more.
        self._ended = 0 < len(piece) == self._size < wanted
        return piece

    def _bytes(self) -> Iterator[bytes]:
        posix.lseek(self.fd, self._skip, 0)
        given = 0
        while not self._ended and (self._left is None or given < self._left):
            piece = self._chunk()
            if not piece:
                break
            if self._left is not None:
                piece = piece[: self._left - given]
            if self._room is not None and given + len(piece) > self._room:
                self.truncated = True
                yield piece[: self._room - given]
                return
            given += len(piece)
            yield piece
        if not self._size:
            self._size = self._skip + given if given else 0

    def _text(self) -> Iterator[bytes]:
        total = newlines = scanned = 0
        last = partial = b""
        while not self._ended:
            piece = self._chunk()
            if not piece:
                break
            last = piece
            total += len(piece)
            count = piece.count(b"\n")
            newlines += count
            if self._left == 0 or self.truncated:
                scanned += len(piece)
                if scanned > SCAN_LIMIT:
                    return
                continue
            part = self._wanted(piece, count)
            partial = _check_utf8(partial, part, self.place)
            yield part
        if partial and not self.truncated:
            raise _not_text(self.place)
        # procfs reports size 0 for files that have content.
        self._size = self._size or total
        self.lines = newlines + (last[-1:] not in (b"", b"\n"))

    def _wanted(self, piece: bytes, newlines: int) -> bytes:
        if newlines < self._skip:
            self._skip -= newlines
            return b""
        if self._skip:
            piece = piece[_after_newline(piece, self._skip) :]
            newlines -= self._skip
            self._skip = 0
        if self._left is not None:
            if newlines >= self._left:
                piece = piece[: _after_newline(piece, self._left)]
            self._left -= min(newlines, self._left)
        if self._room is not None:
            if len(piece) > self._room:
                piece = piece[: self._room]
                self.truncated = True
            self._room -= len(piece)
        return piece


def _after_newline(piece: bytes, number: int) -> int:
    """Return the position after the `number`-th newline of a piece that has that many, found by bisection."""
    low, high = 0, len(piece)
    while high - low > _SHORT:
        middle = (low + high) // 2
        count = piece.count(b"\n", low, middle)
        if count >= number:
            high = middle
        else:
            low, number = middle, number - count
    for _ in range(number):
        low = piece.index(b"\n", low) + 1
    return low


def _check_utf8(partial: bytes, piece: bytes, place: Location) -> bytes:
    """Return the beginning of a character that `piece` leaves unfinished."""
    try:
        if piece.isascii() and not partial:
            return b""
        joined = partial + piece
        return joined[utf_8_decode(joined, "strict", False)[1] :]
    except UnicodeDecodeError:
        raise _not_text(place) from None


def _not_text(place: Location) -> Exception:
    return invalid(f"{place.shown} is not UTF-8 text; read it with encoding base64")
