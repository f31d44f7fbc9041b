"""Check what git inside sends before its pack: the very tips that were resolved, and no other ref.

The agent controls what `git receive-pack` gets. Each tip is named by its own id, so that a name there never means
another object; and nobody creates a million refs in the gateway's repository.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

TIPS = "refs/tip/"

_MOST = 8 << 20
_HEAD = 4
_COMMAND = re.compile(rb"0{40} ([0-9a-f]{40}) refs/tip/([0-9a-f]{40})(?:\0[ -~]*)?\n?")
_SHALLOW = re.compile(rb"shallow [0-9a-f]{40}\n?")


class Gate:
    """Passes a push on once its commands are checked; what follows them is the pack."""

    def __init__(self, tips: Iterable[str]) -> None:
        self._tips = {tip.encode() for tip in tips}
        self._waiting = bytearray()
        self._read = 0
        self._open = False

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes that may pass; HostRefused if a command is not one that was asked for."""
        if self._open:
            return data
        self._waiting += data
        # Bytes are not parsed twice: arriving one by one, they would take quadratic time.
        while len(self._waiting) >= (at := self._read) + _HEAD:
            size = self._size(at)
            if size == 0:
                self._open = True
                passed, self._waiting = bytes(self._waiting), bytearray()
                return passed
            if len(self._waiting) < at + size:
                break
            self._check(bytes(self._waiting[at + _HEAD : at + size]))
            self._read += size
        if len(self._waiting) > _MOST:
            raise _lie(f"more than {_MOST} bytes before its pack")
        return b""

    def _size(self, at: int) -> int:
        try:
            size = int(self._waiting[at : at + _HEAD], 16)
        except ValueError:
            raise _lie("what is not git's protocol") from None
        if 0 < size < _HEAD:
            raise _lie("what is not git's protocol")
        return size

    def _check(self, line: bytes) -> None:
        if _SHALLOW.fullmatch(line):
            return
        command = _COMMAND.fullmatch(line)
        if command is None or command[1] != command[2] or command[1] not in self._tips:
            raise _lie("a ref that was not requested")


def _lie(what: str) -> HostRefused:
    return HostRefused("denied", f"git inside the sandbox sent {what}; all of it was refused")
