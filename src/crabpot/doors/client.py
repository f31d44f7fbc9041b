"""The other end of `crabpot serve`: a gateway that lives in another process, called the same way."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

from crabpot.backends.base import Channel
from crabpot.backends.reply import BadReply, check
from crabpot.backends.wire import Wire
from crabpot.doors.serve import SOCKET_NAME, same_user
from crabpot.errors import CrabpotError
from crabpot.execution import Streams
from crabpot.model import Failure, Place, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping

# The server keeps the limits; these only bound what one answer may hold here.
_OUTPUT = 1 << 30
_LONGEST_S = 30 * 24 * 3600.0


class _ServeWire(Wire[ToolResult]):
    """The wire to a gateway of the same user: its answers are results, whatever their code."""

    def read_answer(self, header: dict[str, Any], payload: bytes, stdout: bytes, stderr: bytes) -> ToolResult:
        """Read a result."""
        error = header.pop("error", None)
        reply = check(header, payload, stdout, stderr)
        if error is not None and not isinstance(error, dict):
            raise BadReply("error is not an object")
        return ToolResult(
            id=str(header.get("call", header.get("id"))),
            success=reply.success,
            stdout=reply.stdout,
            stderr=reply.stderr,
            exit_code=reply.exit_code,
            error=None if error is None else Failure(code=str(error.get("code")), message=str(error.get("message"))),
            truncated=reply.truncated,
            data=reply.data,
            place=Place(header.get("place", "none")),
            duration_ms=float(header.get("duration_ms", 0)),
        )


class RemoteGateway:
    """Calls a gateway that serves."""

    def __init__(self, wire: _ServeWire) -> None:
        self._wire = wire

    async def call(
        self, session: str, tool: str, args: Mapping[str, Any] | None = None, /, *, streams: Streams | None = None
    ) -> ToolResult:
        """Take one call to the other process and wait for its result."""
        streams = streams or Streams()
        return await self._wire.call(
            tool,
            dict(args or {}),
            timeout_s=_LONGEST_S,
            source=streams.source,
            sink=streams.sink,
            resizes=streams.resizes,
            more={"session": session},
        )

    async def inquire(self, inquiry: str, **args: Any) -> Any:
        """Ask what is not a tool call."""
        result = await self._wire.call("", args, timeout_s=_LONGEST_S, more={"inquiry": inquiry})
        if result.error is not None:
            raise CrabpotError(result.error.message)
        return (result.data or {}).get("answer")

    async def close(self) -> None:
        """Leave; the gateway goes on."""
        self._wire.lose("the client left")


async def connect(state: str) -> RemoteGateway | None:
    """Reach the gateway that serves this state folder, or None."""
    path = os.path.join(state, SOCKET_NAME)
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(True)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        return None
    if not same_user(sock):
        sock.close()
        raise CrabpotError(f"{path} belongs to another user")
    sock.setblocking(False)
    hello = {"op": "hello", "limits": {"output": _OUTPUT}}
    with contextlib.suppress(CrabpotError):
        return RemoteGateway(await _ServeWire.connect(Channel(sock=sock), hello, timeout_s=5))
    return None
