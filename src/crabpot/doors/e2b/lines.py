"""Lines of JSON from a program inside. They are hostile: of bounded length, and each checked before it goes on."""

from __future__ import annotations

import json
from typing import Any

from crabpot.doors.e2b.refusals import RpcError


class Lines:
    """Cuts output into lines of JSON, none of them longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = bytearray()

    def take(self, data: bytes) -> list[dict[str, Any]]:
        """Return the objects that are whole now; what is no object is left out."""
        self._held += data
        *lines, rest = self._held.split(b"\n")
        if max(map(len, (*lines, rest))) > self._most:
            self._held.clear()
            raise RpcError("resource_exhausted", f"one answer from inside has more than {self._most} bytes")
        self._held = bytearray(rest)
        return [value for value in map(_object, lines) if value is not None]


def _object(line: bytes | bytearray) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
