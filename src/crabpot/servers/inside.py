"""A server started by a command: a process in a sandbox of its own, whose input and output cross the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.approvals.display import line as displayed
from crabpot.errors import SandboxLost
from crabpot.servers.messages import Messages, longest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp.shared.message import SessionMessage

    from crabpot.sandboxes.live import Live

_FOREVER_S = 10 * 365 * 86_400.0


@dataclass(slots=True, kw_only=True)
class Inside:
    """Carries messages to and from a process in a live sandbox."""

    live: Live
    argv: tuple[str, ...]
    messages: Messages

    @classmethod
    def of(cls, live: Live, argv: tuple[str, ...]) -> Inside:
        """Return the transport to a server that is not started yet."""
        return cls(live=live, argv=argv, messages=Messages(longest(live.wanted.agent.sandbox.limits.output)))

    def new_call(self) -> None:
        """Reset how much the server may send to what one call may take."""
        self.messages.allowance.new_call()

    async def carry(
        self, written: AsyncIterator[SessionMessage], heard: Callable[[SessionMessage], Awaitable[None]]
    ) -> str:
        """Run the process until it ends, and return why it did."""

        async def source() -> AsyncIterator[bytes]:
            async for one in written:
                yield one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"

        async def sink(stream: str, data: bytes) -> None:
            if stream != "stdout":
                self.messages.complained(data)
                return
            for message in self.messages.feed(data):
                await heard(message)

        try:
            reply = await self.live.wire.call(
                "exec",
                {"command": list(self.argv)},
                timeout_s=_FOREVER_S,
                source=source(),
                sink=sink,
                more={"paced": True},
            )
        except SandboxLost as error:
            cause = await self.live.sandbox.cause_of_death()
            return f"its sandbox was lost: {error if cause is None else cause[1]}"
        said = self.messages.last_words
        if reply.error is not None:
            return f"{reply.error[1]}{_quoted(said)}"
        return f"it ended with exit code {reply.exit_code}{_quoted(said)}"


def _quoted(said: str) -> str:
    return f"; its last words: {displayed(said[-500:])}" if said else ""
