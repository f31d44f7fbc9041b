"""A command's output on its way to a client: as text while it runs, and whole in the result."""

from __future__ import annotations

import codecs
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.decide.policy import canonical

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.model import ToolResult

    Tell = Callable[[str, str], Awaitable[None]]


def streams(tool: str, args: Mapping[str, Any]) -> bool:
    """Tell whether a call has output to show while it runs. With a terminal there would be no end of it to keep."""
    return canonical(tool) == "exec" and not args.get("tty")


class Output:
    """Tells of each piece, and keeps all of it; limits.output bounds how much that can be."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        make = codecs.getincrementaldecoder("utf-8")
        # A character may come in two pieces.
        self._decoders = {name: make("replace") for name in self._kept}

    async def sink(self, stream: str, data: bytes) -> None:
        """Take a piece, at the pace of whoever is told."""
        kept = self._kept.get(stream)
        if kept is None:
            return
        kept += data
        text = self._decoders[stream].decode(data)
        if text:
            await self._tell(stream, text)

    def whole(self, result: ToolResult) -> ToolResult:
        """Put the output into the result, as if nobody had listened."""
        stdout, stderr = (bytes(self._kept[name]).decode("utf-8", "replace") for name in ("stdout", "stderr"))
        return replace(result, stdout=result.stdout or stdout, stderr=result.stderr or stderr)
