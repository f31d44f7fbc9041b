"""The calls that run now, with the end of what they have printed: for operators who look on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from crabpot.audit.records import shown_arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.model import ToolCall
    from crabpot.wire.in_flight import Sink

# A screenful: the rest is for whoever called.
_KEPT = 4096
_MOST_LINES = 12
# Nobody reads more at once.
_MOST = 100


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call under way, listed during the block; `sizes` is how much of each stream was passed on."""

    call: ToolCall
    sizes: dict[str, int]
    among: dict[str, RunningCall]
    since: float = field(default_factory=time.time)
    # Removes the caller's approver, if it has one.
    detach: Callable[[], None] | None = None
    _tail: bytes = b""

    def __enter__(self) -> Self:
        """List it."""
        self.among[self.call.id] = self
        return self

    def __exit__(self, *_: object) -> None:
        """List it no longer."""
        del self.among[self.call.id]
        if self.detach is not None:
            self.detach()

    def taking(self, sink: Sink) -> Sink:
        """Return a sink that notes what passes through it on its way to `sink`."""

        async def take(stream: str, data: bytes) -> None:
            self.sizes[stream] = self.sizes.get(stream, 0) + len(data)
            self._tail = (self._tail + data[-_KEPT:])[-_KEPT:]
            await sink(stream, data)

        return take

    def as_json(self) -> dict[str, Any]:
        """Return what is shown of it: the last lines of its output, where somebody reads that while it runs."""
        lines = self._tail.decode("utf-8", "replace").replace("\r", "\n").split("\n")[-_MOST_LINES:]
        shown = {"call": self.call.id, "session": self.call.session, "tool": self.call.tool, "since": self.since}
        return {**shown, "args": shown_arguments(self.call.args), "output": lines if self._tail else []}


def listed(running: dict[str, RunningCall]) -> list[dict[str, Any]]:
    """Return what is shown of the first of them."""
    return [one.as_json() for one in list(running.values())[:_MOST]]
