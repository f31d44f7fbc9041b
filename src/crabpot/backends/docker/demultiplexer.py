"""Split what an attached container sends: standard output is the wire, standard error is kept for messages."""

from __future__ import annotations

from crabpot.runner.core.frames import FrameError

_HEADER = 8
_OUTPUT, _ERRORS = 1, 2
_KEPT = 8192
# The engine copies in pieces of 32 KiB; a length beyond this is not one.
_LONGEST = 16 * 1024**2


class Demultiplexer:
    """Takes what arrives, returns the part that is the wire. The engine frames it, whatever the runner writes."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._wire = False
        self._errors = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """Take what arrived, in pieces of any length."""
        pieces: list[bytes] = []
        place, end = 0, len(data)
        while place < end:
            if not self._left:
                taken = data[place : place + _HEADER - len(self._head)]
                place += len(taken)
                self._head += taken
                if len(self._head) < _HEADER:
                    break
                self._begin()
                continue
            piece = data[place : place + self._left]
            place += len(piece)
            self._left -= len(piece)
            if self._wire:
                pieces.append(piece)
            else:
                self._errors += piece
                del self._errors[:-_KEPT]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _begin(self) -> None:
        kind, self._left = self._head[0], int.from_bytes(self._head[4:], "big")
        if kind not in (_OUTPUT, _ERRORS) or self._head[1:4] != b"\0\0\0" or self._left > _LONGEST:
            raise FrameError("the engine's stream is not framed as expected")
        self._wire = kind == _OUTPUT
        self._head = b""

    def errors(self) -> str:
        """Return the end of what the container wrote to its standard error."""
        return bytes(self._errors).decode("utf-8", "replace").strip()
