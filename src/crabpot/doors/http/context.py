"""What the routes share: the gateway, the calls in flight, and whether the door is closing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.inflight import Calls, ClientGone
from crabpot.doors.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from crabpot.doors.http.routes.metrics import Metrics
    from crabpot.doors.inflight import Sign
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A call to the gateway, and on whose behalf."""

    session: str
    tool: str
    args: Mapping[str, Any]
    sender: str | None
    host_allowed: bool


@dataclass(slots=True, kw_only=True)
class Context:
    """One gateway behind its HTTP door."""

    gateway: Gateway
    metrics: Metrics
    calls: Calls = field(default_factory=Calls)
    closing: bool = False
    kept: Kept = field(init=False)

    def __post_init__(self) -> None:
        """Remember what is kept in the state folder."""
        self.kept = Kept(self.state)

    async def call(self, asked: CallRequest, *, gone: Sign, streams: Streams | None = None) -> ToolResult:
        """Pass one call to the gateway; it is cancelled if the client disconnects."""
        if self.closing:
            raise _closing()
        work = self.gateway.call(
            asked.session,
            asked.tool,
            asked.args,
            sender=asked.sender,
            streams=streams,
            host_allowed=asked.host_allowed,
        )
        try:
            result = await self.calls.run(work, gone)
        except ClientGone:
            if self.closing and not gone.is_set():
                raise _closing() from None
            raise
        self.gateway.audit.hasten()
        return result

    @property
    def state(self) -> str:
        """The state folder."""
        return self.gateway.execution.around.state


def _closing() -> Refusal:
    return Refusal(503, "closing", "the gateway is shutting down", retry_after="5")


class Json(Response):
    """A JSON response, sent in one piece."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; to HEAD, only the head."""
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
        else:
            await scope["state"]["connection"].answer(self.status_code, self.raw_headers, self.body)


def as_json(value: Any, *, status: int = 200) -> Response:
    """Return a JSON response in ASCII: a name that is not UTF-8 has no other spelling in JSON."""
    return Json(json.dumps(value), status_code=status)
