"""A command's output for a client: as text while it runs, and complete in the result."""

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
    """Return whether a call's output can be streamed. With a terminal there would be no end of it to keep."""
    return canonical(tool) == "exec" and not args.get("tty")


class Output:
    """Streams each chunk and keeps all of them; limits.output bounds how much that is."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        make = codecs.getincrementaldecoder("utf-8")
        # A character may be split over two chunks.
        self._decoders = {name: make("replace") for name in self._kept}

    async def sink(self, stream: str, data: bytes) -> None:
        """Pass a chunk on, at the pace of its receiver."""
        kept = self._kept.get(stream)
        if kept is None:
            return
        kept += data
        text = self._decoders[stream].decode(data)
        if text:
            await self._tell(stream, text)

    def whole(self, result: ToolResult) -> ToolResult:
        """Return the result with the output in it, as if it had not been streamed."""
        stdout, stderr = (bytes(self._kept[name]).decode("utf-8", "replace") for name in ("stdout", "stderr"))
        return replace(result, stdout=result.stdout or stdout, stderr=result.stderr or stderr)
