"""Listen for HTTP: on a Unix socket for the same user, and if asked on the loopback, or beyond it with TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import uvicorn

from crabpot.doors.http.access.admission import Admission
from crabpot.doors.http.access.bodies import Bodies
from crabpot.doors.http.access.connections import Connections
from crabpot.doors.http.access.entry import BearerEntry
from crabpot.doors.http.access.limits import Limits
from crabpot.doors.http.certificate import Names
from crabpot.doors.http.protocol import OwnUser, Timely
from crabpot.doors.local.server import listening
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import ASGIApp

    from crabpot.doors.http.access.entry import Entry
    from crabpot.doors.http.access.tokens import Tokens
    from crabpot.doors.http.certificate import Certificate
    from crabpot.doors.http.context import Context

SOCKET_NAME = "http.sock"

# Calls may end within this time; the others are cancelled.
_GRACE_S = 3.0
# A few turns of the loop pass until a request is read and says whose a connection is. Fewer come in meanwhile than
# strangers may have: otherwise a flood would push out those that have already sent a token.
_ACCEPTED_AT_ONCE, _QUEUED = 32, 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen; port 0 means any free port. Beyond the loopback there is a certificate."""

    host: str
    port: int
    certificate: Certificate | None = None


def address(text: str, certificate: Certificate | None = None) -> Address:
    """Parse HOST:PORT. Beyond the loopback only with TLS: a token would be read on the way."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004  the highest port
        raise CrabpotError(f'"{text}" is not an address; write 127.0.0.1:PORT')
    try:
        found = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise CrabpotError(f'"{text}" is not an address in numbers; write 127.0.0.1:{port}') from None
    if not found.is_loopback and certificate is None:
        beyond = "to listen beyond it, add --tls-cert FILE and --tls-key FILE"
        raise CrabpotError(f"{host} is not the loopback: write 127.0.0.1:{port}; {beyond}")
    return Address(host=str(found), port=int(port), certificate=certificate)


class Listeners:
    """The listeners of a serving gateway. All share the limits of a principal, whichever it comes to."""

    def __init__(self, context: Context, limits: Limits) -> None:
        self.context = context
        self.where: list[str] = []
        # Awaited at the end, before the calls in flight get their grace.
        self.farewells: list[Callable[[], Awaitable[None]]] = []
        self._limits = limits
        self._bodies = Bodies()
        self._strangers = Limits(per_s=10, burst=50)
        self._connections = Connections()
        self._servers: list[uvicorn.Server] = []
        self._following: list[asyncio.Task[None]] = []
        self._sockets = ExitStack()

    async def on_socket(self, app: ASGIApp, entry: Entry) -> None:
        """Listen on the Unix socket of the state folder."""
        path = os.path.join(self.context.state, SOCKET_NAME)
        sock = self._sockets.enter_context(listening(path))
        await self._start(self._admission(app, entry, None), sock, OwnUser)
        self.where.append(path)

    async def on_loopback(
        self, app: ASGIApp, entry: Entry, at: Address, protocol: type[Timely] | None = None, **state: Any
    ) -> str:
        """Listen on the loopback, and return the address. `state` is for connections with a protocol of their own."""
        sock = self._sockets.enter_context(_bound(at))
        port = sock.getsockname()[1]
        names = Names(listed=frozenset({f"{_bracketed(at.host)}:{port}", f"localhost:{port}"}))
        await self._start(self._admission(app, entry, names), sock, protocol or Timely, **state)
        self.where.append(f"http://{_bracketed(at.host)}:{port}")
        return self.where[-1]

    async def with_tls(self, app: ASGIApp, entry: Entry, at: Address, certificate: Certificate) -> None:
        """Listen anywhere, under the names of a certificate, which is read again when it is renewed."""
        names = Names(listed=certificate.names(), secure=True)
        tls = certificate.load()
        sock = self._sockets.enter_context(_bound(at))
        self._servers.append(
            await _start(self._admission(app, entry, names), sock, Timely, {"connections": self._connections}, tls)
        )
        self._following.append(asyncio.create_task(certificate.follow()))
        self.where.append(f"https://{_bracketed(at.host)}:{sock.getsockname()[1]}")

    def _admission(self, app: ASGIApp, entry: Entry, hosts: Names | None) -> Admission:
        return Admission(
            app=app, entry=entry, limits=self._limits, bodies=self._bodies, strangers=self._strangers, hosts=hosts
        )

    async def _start(self, admission: Admission, sock: socket.socket, protocol: type[Timely], **state: Any) -> None:
        self._servers.append(await _start(admission, sock, protocol, {"connections": self._connections, **state}))

    async def close(self) -> None:
        """Listen no more. Calls end before connections do."""
        self.context.closing = True
        for task in self._following:
            task.cancel()
        for server in self._servers:
            for listener in server.servers:
                listener.close()
        for farewell in self.farewells:
            await farewell()
        await self.context.calls.close(grace_s=_GRACE_S)
        await asyncio.gather(*(server.shutdown() for server in self._servers))
        self._sockets.close()


@asynccontextmanager
async def listen(
    context: Context, app: ASGIApp, tokens: Tokens, at: Address | None, limits: Limits
) -> AsyncIterator[Listeners]:
    """Serve for the block, and yield the listeners."""
    _be_quiet()
    listeners = Listeners(context, limits)
    try:
        await listeners.on_socket(app, BearerEntry(tokens=tokens, same_user=True))
        if at is not None and at.certificate is not None:
            await listeners.with_tls(app, BearerEntry(tokens=tokens, same_user=False), at, at.certificate)
        elif at is not None:
            await listeners.on_loopback(app, BearerEntry(tokens=tokens, same_user=False), at)
        yield listeners
    finally:
        await listeners.close()


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
    admission: Admission,
    sock: socket.socket,
    protocol: type[Timely],
    state: dict[str, Any],
    tls: ssl.SSLContext | None = None,
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
        timeout_keep_alive=max(1, int(admission.limits.request_s)),
        timeout_graceful_shutdown=int(_GRACE_S),
        backlog=_ACCEPTED_AT_ONCE,
    )
    config.load()
    config.ssl = tls
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Each connection gets this state and adds itself, so that the admission finds both.
    server.lifespan.state.update(state, request_s=admission.limits.request_s)
    await server.startup(sockets=[sock])
    # asyncio accepts as many in one go as it let the kernel queue; the queue itself may be longer.
    sock.listen(_QUEUED)
    return server


def _be_quiet() -> None:
    """Silence uvicorn's log, which clients could fill: refusals are responses, and calls are in the audit log."""
    for name in ("uvicorn", "mcp"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
