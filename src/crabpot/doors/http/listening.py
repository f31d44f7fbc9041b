"""Listen for HTTP: on a Unix socket for the same user, and on the loopback if asked."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from crabpot.doors.http.access.admission import Admission
from crabpot.doors.http.access.bodies import Bodies
from crabpot.doors.http.access.connections import Connections
from crabpot.doors.http.access.limits import Limits
from crabpot.doors.http.access.peers import uid_of
from crabpot.doors.local.server import listening, same_user
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from crabpot.doors.http.access.tokens import Tokens
    from crabpot.doors.http.context import Context

SOCKET_NAME = "http.sock"

# Calls may end within this time; the others are cancelled.
_GRACE_S = 3.0
_LONGEST_HEADERS = 64 * 1024
# A few turns of the loop pass until a request is read and says whose a connection is. Fewer come in meanwhile than
# strangers may have: otherwise a flood would push out those that have already sent a token.
_ACCEPTED_AT_ONCE, _QUEUED = 32, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen on the loopback; port 0 means any free port."""

    host: str
    port: int


def address(text: str) -> Address:
    """Parse HOST:PORT. Only the loopback: for more, put a proxy with access control in front."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004  the highest port
        raise CrabpotError(f'"{text}" is not an address; write 127.0.0.1:PORT')
    try:
        loopback = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise CrabpotError(f'"{text}" is not a loopback address; write 127.0.0.1:{port}') from None
    if not loopback.is_loopback:
        raise CrabpotError(f"{host} is not the loopback; Crabpot listens on 127.0.0.1 or ::1 only")
    return Address(host=str(loopback), port=int(port))


@asynccontextmanager
async def listen(
    context: Context, app: ASGIApp, tokens: Tokens, at: Address | None, limits: Limits
) -> AsyncIterator[list[str]]:
    """Serve for the block, and yield the addresses. At its end, calls end before connections do."""
    _be_quiet()
    async with AsyncExitStack() as stack:
        strangers, connections, bodies = Limits(per_s=10, burst=50), Connections(), Bodies()
        path = os.path.join(context.state, SOCKET_NAME)
        unix = stack.enter_context(listening(path))
        admission = Admission(app=app, tokens=tokens, limits=limits, bodies=bodies, strangers=strangers, hosts=None)
        servers = [await _start(admission, unix, _OwnUser, connections)]
        where = [path]
        if at is not None:
            tcp = stack.enter_context(_bound(at))
            port = tcp.getsockname()[1]
            admission = replace(admission, hosts=_names(at.host, port))
            servers.append(await _start(admission, tcp, _Timely, connections))
            where.append(f"http://{_bracketed(at.host)}:{port}")
        try:
            yield where
        finally:
            context.closing = True
            for server in servers:
                for listener in server.servers:
                    listener.close()
            await context.calls.close(grace_s=_GRACE_S)
            await asyncio.gather(*(server.shutdown() for server in servers))


def _names(host: str, port: int) -> frozenset[str]:
    return frozenset({f"{_bracketed(host)}:{port}", f"localhost:{port}"})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bound(at: Address) -> socket.socket:
    # The protocol is explicit: asyncio disables Nagle's algorithm only for sockets created as TCP, and with it on
    # every answer would wait 40 ms for the client's delayed acknowledgement.
    sock = socket.socket(socket.AF_INET6 if ":" in at.host else socket.AF_INET, proto=socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((at.host, at.port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise CrabpotError(f"{_bracketed(at.host)}:{at.port}: {error.strerror}; choose another port") from None
    return sock


async def _start(
    admission: Admission, sock: socket.socket, protocol: type[H11Protocol], connections: Connections
) -> uvicorn.Server:
    """Start uvicorn's server in our loop, without its own signal handlers, logs and timer."""
    config = uvicorn.Config(
        admission,
        http=protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEADERS,
        timeout_keep_alive=max(1, int(admission.limits.request_s)),
        timeout_graceful_shutdown=int(_GRACE_S),
        backlog=_ACCEPTED_AT_ONCE,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Each connection gets this state and adds itself, so that the admission finds both.
    server.lifespan.state.update(connections=connections, request_s=admission.limits.request_s)
    await server.startup(sockets=[sock])
    # asyncio accepts as many in one go as it let the kernel queue; the queue itself may be longer.
    sock.listen(_QUEUED)
    return server


def _be_quiet() -> None:
    """Silence uvicorn's log, which clients could fill: refusals are responses, and calls are in the audit log."""
    for name in ("uvicorn", "mcp"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False


class _Timely(H11Protocol):
    """Disconnects a client that does not complete a request: it would hold its connection for ever.

    From the start, and from the end of each response, the head of the next request must arrive in time. Partial data,
    a byte of it or the rest of a body that nobody reads any more, does not extend the time.
    """

    _deadline: asyncio.TimerHandle | None = None
    peer: int | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.peer = uid_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "connection": self}
        self._connections.arrived(self)
        self._wait_for_request()

    @property
    def _connections(self) -> Connections:
        found: Connections = self.app_state["connections"]
        return found

    @property
    def idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def drop(self) -> None:
        self.transport.abort()

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._wait_for_request()
        super().on_response_complete()

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.app_state["request_s"], self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the format of every refusal."""
        body = json.dumps({"error": {"code": "bad_request", "message": msg}}).encode()
        lines = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._connections.left(self)
        super().connection_lost(exc)


class _OwnUser(_Timely):
    """Serves only the gateway's own user, whatever the socket's permissions have become."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not same_user(transport.get_extra_info("socket")):
            self.drop()
