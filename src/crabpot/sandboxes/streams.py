"""What a door connects to a call, and how many bytes of output went through it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.approvals.approver import Approver
    from crabpot.sandboxes.remarks import Remark
    from crabpot.wire.calls import Resizes, Source
    from crabpot.wire.in_flight import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """What a door connects to a call: its input, who takes its output, its terminal's sizes, whom to ask and to tell.

    `paced`: the sink gets all output, however much, at its own pace. `merged`: standard error comes as standard
    output, in the order in which it was written.
    """

    source: Source | None = None
    sink: Sink | None = None
    resizes: Resizes | None = None
    approver: Approver | None = None
    remark: Callable[[Remark], None] | None = None
    # Is told how far a call of an MCP server is: a number, of how many, and a word.
    progress: Callable[[float, float | None, str | None], Awaitable[None]] | None = None
    # Asks the caller's own model for a message, where the caller offers that to MCP servers.
    sampler: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    paced: bool = False
    merged: bool = False

    @property
    def header(self) -> dict[str, bool] | None:
        """Return what of it goes into the header of the call's frame."""
        if not (self.paced or self.merged):
            return None
        return {name: True for name in ("paced", "merged") if getattr(self, name)}

    def passing(self, through: Callable[[Sink], Sink]) -> Streams:
        """Return the same, with the output passing through what `through` puts before the sink, if there is one."""
        return self if self.sink is None else replace(self, sink=through(self.sink))


def counting(sink: Sink, sizes: dict[str, int]) -> Sink:
    """Return a sink that adds to `sizes` how many bytes of each stream `sink` was given."""

    async def take(stream: str, data: bytes) -> None:
        sizes[stream] = sizes.get(stream, 0) + len(data)
        await sink(stream, data)

    return take
