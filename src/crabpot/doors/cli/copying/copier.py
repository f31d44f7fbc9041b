"""What both directions of `cp` share: who is called, what is counted, and what is not copied."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.frame import note
from crabpot.doors.cli.show import visible
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from crabpot.doors.local.client import RemoteGateway
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams

CHUNK = 1024 * 1024
_DEEPEST = 64
_TOLD_EVERY = 64 * CHUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A path inside a session's place."""

    session: str
    path: str

    def __str__(self) -> str:
        """Read as it is written."""
        return f"{self.session}:{self.path}"

    def below(self, name: str) -> Remote:
        """Give the path of an entry."""
        return Remote(session=self.session, path=f"{self.path.rstrip('/')}/{name}")


class Copier:
    """Calls one session's tools, as long as they may take."""

    def __init__(self, opened: Gateway | RemoteGateway, session: str, timeout_s: float) -> None:
        self._gateway = opened
        self._session = session
        self._timeout_s = timeout_s
        self.files = 0
        self.size = 0

    async def call(self, tool: str, streams: Streams | None = None, **args: Any) -> ToolResult:
        """Run one tool."""
        args["timeout"] = self._timeout_s
        return await self._gateway.call(self._session, tool, args, streams=streams)

    def count(self, size: int) -> None:
        """Add to what was copied, and tell a person now and then."""
        before, self.size = self.size, self.size + size
        if sys.stderr.isatty() and before // _TOLD_EVERY != self.size // _TOLD_EVERY:
            print(f"crabpot: {self.size // CHUNK} MiB", file=sys.stderr)


def check(place: Remote, result: ToolResult) -> None:
    """Refuse to go on after a failure."""
    if result.error is not None:
        raise CrabpotError(visible(f"{place}: {result.error.code}: {result.error.message}"))


def check_depth(depth: int) -> None:
    """Refuse what nobody nests so deep."""
    if depth > _DEEPEST:
        raise CrabpotError(f"folders nested deeper than {_DEEPEST} are not copied")


def left_out(shown: str) -> None:
    """Tell of what is neither file nor folder."""
    note(f"{visible(shown)} is no regular file or folder; it was left out")
