"""What both directions of `cp` share: calling the session, counting bytes, and skipping special files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.frame import note
from crabpot.doors.cli.show import visible
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams

CHUNK = 1024 * 1024
_DEEPEST = 64
_TOLD_EVERY = 64 * CHUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A path in a session's sandbox."""

    session: str
    path: str

    def __str__(self) -> str:
        """Return `SESSION:/path`, as it is written."""
        return f"{self.session}:{self.path}"

    def below(self, name: str) -> Remote:
        """Return the path of an entry."""
        return Remote(session=self.session, path=f"{self.path.rstrip('/')}/{name}")


class Copier:
    """Calls one session's tools, with the longest time limit."""

    def __init__(self, opened: AnyGateway, session: str, timeout_s: float) -> None:
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
        """Count copied bytes, and report progress now and then."""
        before, self.size = self.size, self.size + size
        if sys.stderr.isatty() and before // _TOLD_EVERY != self.size // _TOLD_EVERY:
            print(f"crabpot: {self.size // CHUNK} MiB", file=sys.stderr)


def check(place: Remote, result: ToolResult) -> None:
    """Raise an error if the call failed."""
    if result.error is not None:
        raise CrabpotError(visible(f"{place}: {result.error.code}: {result.error.message}"))


def check_depth(depth: int) -> None:
    """Refuse folders nested too deep."""
    if depth > _DEEPEST:
        raise CrabpotError(f"folders nested deeper than {_DEEPEST} are not copied")


def left_out(shown: str) -> None:
    """Report something that is neither file nor folder."""
    note(f"{visible(shown)} is not a regular file or folder, and was skipped")
