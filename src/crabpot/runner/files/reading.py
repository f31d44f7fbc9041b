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
    from typing import Any, Generator

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


class _Request:
    """A checked `read` call with its file open."""

    __slots__ = ("base64", "ended", "fd", "first", "limit", "place", "size")

    def __init__(self, args: dict[str, Any], ctx: Context) -> None:
        values = arguments.take("read", args, _REQUIRED, _OPTIONAL)
        self.base64 = values["encoding"] == "base64"
        self.limit: int | None = values["limit"]
        offset = values["offset"]
        if offset == 0 and not self.base64:
            raise invalid("offset is 0; lines are counted from 1 (bytes, under encoding base64, from 0)")
        self.first: int = offset or 0 if self.base64 else (offset or 1) - 1
        self.place = ctx.locate(values["path"])
        self.fd, state = ctx.open_regular(self.place)
        self.size = state.st_size

    def chunk(self) -> bytes:
        # A buffer no larger than the file: a fresh half megabyte costs more than reading 4 KiB into a small one.
        wanted = self.size + 1 if 0 < self.size < CHUNK else CHUNK
        piece = posix.read(self.fd, wanted)
        # As long as it was said to be, and asked for more: there is no more.
        self.ended = 0 < len(piece) == self.size < wanted
        return piece

    def data(self, lines: int | None, *, truncated: bool) -> dict[str, Any]:
        encoding = "base64" if self.base64 else "utf-8"
        return {"encoding": encoding, "size": self.size, "lines": lines, "truncated": truncated}


def read(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Return content up to CONTENT_LIMIT, cut after a whole line, or after a whole character of a giant line."""
    request = _Request(args, ctx)
    pieces: list[bytes] = []
    steps = _bytes(request, CONTENT_LIMIT) if request.base64 else _text(request, CONTENT_LIMIT)
    try:
        while True:
            pieces.append(next(steps))
    except StopIteration as end:
        data: dict[str, Any] = end.value
    except OSError as error:
        raise failed(error, request.place) from None
    finally:
        posix.close(request.fd)
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if data["truncated"] and not request.base64:
        line_end = content.rfind(b"\n") + 1
        content = content[: line_end or utf_8_decode(content, "strict", False)[1]]
    return {"data": data, "payload": content}


def stream_read(args: dict[str, Any], ctx: Context) -> Generator[bytes, None, dict[str, Any]]:
    """Yield content of any size in chunks; an empty one is a step of the search for the first line."""
    request = _Request(args, ctx)
    try:
        return (yield from _bytes(request, None) if request.base64 else _text(request, None))
    except OSError as error:
        raise failed(error, request.place) from None
    finally:
        posix.close(request.fd)


def _bytes(request: _Request, cap: int | None) -> Generator[bytes, None, dict[str, Any]]:
    posix.lseek(request.fd, request.first, 0)
    left = request.limit
    given = 0
    while left is None or given < left:
        piece = request.chunk()
        if not piece:
            break
        if left is not None:
            piece = piece[: left - given]
        if cap is not None and given + len(piece) > cap:
            yield piece[: cap - given]
            return request.data(None, truncated=True)
        given += len(piece)
        yield piece
        if request.ended:
            break
    if not request.size:
        request.size = request.first + given if given else 0
    return request.data(None, truncated=False)


def _text(request: _Request, cap: int | None) -> Generator[bytes, None, dict[str, Any]]:
    selection = _Selection(request.first, request.limit, cap)
    total = newlines = scanned = 0
    last = partial = b""
    while True:
        piece = request.chunk()
        if not piece:
            break
        last = piece
        total += len(piece)
        count = piece.count(b"\n")
        newlines += count
        if selection.over:
            scanned += len(piece)
            if scanned > SCAN_LIMIT:
                return request.data(None, truncated=selection.cut)
            continue
        part = selection.take(piece, count)
        partial = _check_utf8(partial, part, request.place)
        yield part
        if request.ended:
            break
    if partial and not selection.cut:
        raise _not_text(request.place)
    # procfs reports size 0 for files that have content.
    request.size = request.size or total
    unfinished = bool(last) and not last.endswith(b"\n")
    return request.data(newlines + unfinished, truncated=selection.cut)


class _Selection:
    """Which lines are wanted, decided piece by piece; `over` when no more are, `cut` if the cap was the reason."""

    __slots__ = ("_left", "_room", "_skip", "cut", "over")

    def __init__(self, skip: int, left: int | None, cap: int | None) -> None:
        self._skip = skip
        self._left = left
        self._room = cap
        self.over = left == 0
        self.cut = False

    def take(self, piece: bytes, newlines: int) -> bytes:
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
                self.over = True
            self._left -= min(newlines, self._left)
        if self._room is not None:
            if len(piece) > self._room:
                piece = piece[: self._room]
                self.over = self.cut = True
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
