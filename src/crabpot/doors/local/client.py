"""The client of `crabpot serve`: a gateway in another process, called the same way."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

from crabpot.doors.local.identity import SOCKET_NAME, digest, of_code, surroundings
from crabpot.doors.local.questions import Answerer
from crabpot.doors.local.server import fingerprint, peer, reachable
from crabpot.errors import CrabpotError, SandboxLost, SessionError
from crabpot.model import Place, ToolResult
from crabpot.sandboxes.remarks import Remark
from crabpot.sandboxes.streams import Streams
from crabpot.wire.calls import Wire
from crabpot.wire.channel import Channel
from crabpot.wire.replies import BadReply, check
from crabpot.wire.stream import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.wire.replies import Output

# The server enforces the limits; these only bound the size of one answer here.
_OUTPUT = 1 << 30
_LONGEST_S = 30 * 24 * 3600.0
_CONNECT_S = 5.0
# A socket of systemd's answers before its gateway has started.
_READY_S = 90.0


class _ServeWire(Wire[ToolResult]):
    """The wire to a gateway of the same user: its answers are results, whatever their code, and it may ask."""

    def __init__(self, channel: Channel, *, grace_s: float = GRACE_S) -> None:
        super().__init__(channel, grace_s=grace_s)
        self.answerer = Answerer(self.send)
        self.remark: Callable[[Remark], None] | None = None

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle a question, or a frame that belongs to a call."""
        if header.get("op") in ("ask", "withdraw"):
            self.answerer.take(header, payload)
        elif header.get("op") == "remark":
            if self.remark is not None:
                said = {name: header.get(name) is True for name in ("once", "quiet")}
                self.remark(Remark(text=str(header.get("text")), **said))
        else:
            super().take(header, payload)

    def read_answer(self, header: dict[str, Any], payload: bytes, stdout: Output, stderr: Output) -> ToolResult:
        """Parse a result."""
        reply = check(header, payload, stdout, stderr)
        place, took = header.get("place", "none"), header.get("duration_ms", 0)
        if place not in tuple(Place) or type(took) not in (int, float):
            raise BadReply("a result that no gateway of this version gives")
        return reply.as_result(str(header.get("call", header.get("id"))), Place(place), float(took))


class RemoteGateway:
    """A client of a serving gateway."""

    ends_on_close = False

    def __init__(self, wire: _ServeWire) -> None:
        self._wire = wire

    def decides_by(self, config: str | None) -> bool:
        """Return whether it runs on this configuration as it is written now."""
        return self._wire.ready.get("config") == fingerprint(config)

    @property
    def lingers(self) -> float | None:
        """For how many seconds it lingers when idle; None if it serves until it is ended."""
        lingers = self._wire.ready.get("lingers")
        return float(lingers) if isinstance(lingers, int | float) else None

    def is_kin(self, config: str | None) -> bool:
        """Return whether it has this configuration, this code and, if it lingers, our surroundings."""
        return self.decides_by(config) and (self.lingers is None or self._wire.ready.get("code") == of_code(os.environ))

    @property
    def differs(self) -> list[str]:
        """The decisive variables in which a lingering gateway differs from us."""
        around, ours = self._wire.ready.get("around"), surroundings(os.environ)
        theirs = around if isinstance(around, dict) else {}
        own = {name: digest(os.fsencode(value)) for name, value in ours.items()}
        return sorted(name for name in {*theirs, *own} if theirs.get(name) != own.get(name))

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
        """Pass one call to the other process and wait for its result."""
        more: dict[str, Any] = {"session": session} if sender is None else {"session": session, "sender": sender}
        if not host_allowed:
            more["host_allowed"] = False
        if brings := self._wire.ready.get("brings"):
            more["environ"] = {name: os.environ[name] for name in brings if name in os.environ}
        given = streams or Streams()
        more |= given.header or {}
        if given.approver is not None:
            self._wire.answerer.approver = given.approver
            more["asks"] = True
        self._wire.remark = given.remark
        return await self._call(tool, args or {}, more, given)

    async def offered(self, session: str, *, host_allowed: bool = True) -> list[dict[str, Any]]:
        """Ask which tools the session may use, each with its description."""
        return list(await self.inquire("tools", session=session, host_allowed=host_allowed))

    async def passes(self, session: str, *, host_allowed: bool = True) -> list[str]:
        """Ask by which calls the session gets what MCP servers have besides tools."""
        return list(await self.inquire("passes", session=session, host_allowed=host_allowed))

    async def stamps(self, session: str, *, host_allowed: bool = True) -> dict[str, str]:
        """Ask whether the lists of MCP servers are still the same."""
        return dict(await self.inquire("stamps", session=session, host_allowed=host_allowed))

    async def inquire(self, inquiry: str, **args: Any) -> Any:
        """Make an inquiry that is not a tool call."""
        result = await self._call("", args, {"inquiry": inquiry}, Streams())
        if result.error is not None:
            # The same exit code as where no gateway runs.
            wrong_key = result.error.code == "invalid_arguments"
            raise (SessionError if wrong_key else CrabpotError)(result.error.message)
        return (result.data or {}).get("answer")

    async def _call(self, tool: str, args: Mapping[str, Any], more: Mapping[str, Any], streams: Streams) -> ToolResult:
        try:
            return await self._wire.call(
                tool,
                args,
                timeout_s=_LONGEST_S,
                source=streams.source,
                sink=streams.sink,
                resizes=streams.resizes,
                more=more,
            )
        except SandboxLost as error:
            raise CrabpotError(f"the serving gateway is gone: {error}") from None

    async def reload(self) -> bool:
        """Have it read its configuration again; return whether that had changed. A lingering one makes room instead."""
        return await self.inquire("reload") is True

    async def close(self) -> None:
        """Disconnect; the gateway goes on."""
        await self._wire.answerer.close()
        self._wire.lose("the client left")


def claim(config: str | None) -> dict[str, str]:
    """Return what a caller says of itself; a gateway that is another's takes no call of it."""
    return {"config": fingerprint(config), "code": of_code(os.environ)}


async def connect(
    state: str, *, timeout_s: float = _READY_S, name: str = SOCKET_NAME, claims: Mapping[str, str] | None = None
) -> RemoteGateway | None:
    """Connect to the gateway that serves this state folder, or to another one by name; return None if there is none."""
    path = os.path.join(state, name)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(_CONNECT_S)
        with reachable(path) as address:
            sock.connect(address)
    except OSError:
        sock.close()
        return None
    # The socket of a system unit was made by root's systemd, for the gateway of this user.
    if peer(sock) not in (os.geteuid(), 0):
        sock.close()
        raise CrabpotError(f"{path} belongs to another user")
    sock.setblocking(False)
    hello = {"op": "hello", "limits": {"output": _OUTPUT}, **(claims or {})}
    with contextlib.suppress(CrabpotError):
        return RemoteGateway(await _ServeWire.connect(Channel(sock=sock), hello, timeout_s=timeout_s))
    return None
