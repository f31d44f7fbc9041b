"""A gateway as a door sees it, in this process or in another: no door asks which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams


class AnyGateway(Protocol):
    """What a door needs of a gateway."""

    @property
    def ends_on_close(self) -> bool:
        """Whether its sandboxes, and what runs in them, end when this caller closes it."""

    async def call(  # noqa: PLR0913  the tool's own arguments stand beside the door's
        self,
        session: str,
        tool: str,
        args: Mapping[str, Any] | None = None,
        /,
        *,
        sender: str | None = None,
        streams: Streams | None = None,
        host_allowed: bool = True,
    ) -> ToolResult:
        """Take one call through the gateway."""

    async def offered(self, session: str, *, host_allowed: bool = True) -> list[dict[str, Any]]:
        """Describe the tools that the session's policy leaves, and only those."""

    async def passes(self, session: str, *, host_allowed: bool = True) -> list[str]:
        """List the calls by which the session gets what MCP servers have besides tools."""

    async def stamps(self, session: str, *, host_allowed: bool = True) -> dict[str, str]:
        """Return a text for each list of MCP servers that a client may keep, another one once the list may be."""

    async def close(self) -> None:
        """End what this caller used of it."""
