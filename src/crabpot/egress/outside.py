"""The far end of a connection: a plain socket, or TLS over one, verified in full. One interface for both."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Protocol

from crabpot.egress.secured import Secured

if TYPE_CHECKING:
    from collections.abc import Callable

# A frame this size fits an empty socket buffer whole: what does not fit is copied once more.
_READ = 128 << 10
_HANDSHAKE_S = 30.0


class NotVerified(Exception):
    """The server did not prove that it is the host that was meant; the message says why."""


class Outside(Protocol):
    """A server's side of a connection."""

    async def send(self, data: bytes) -> None:
        """Send all the bytes."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at EOF."""

    def half_close(self) -> None:
        """Send EOF to the server."""

    def close(self) -> None:
        """End the connection."""


class Plain:
    """A connection as it is."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        """Send all the bytes."""
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self) -> bytes:
        """Return the next bytes; empty at EOF."""
        return await asyncio.get_running_loop().sock_recv(self._sock, _READ)

    def half_close(self) -> None:
        """Send EOF to the server."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the connection."""
        self._sock.close()


class Encrypted:
    """TLS over a plain connection, to a server that has proved its name."""

    def __init__(self, plain: Plain, secured: Secured) -> None:
        self._plain = plain
        self._secured = secured

    async def send(self, data: bytes) -> None:
        """Send all the bytes."""
        await self._secured.write(data)

    async def receive(self) -> bytes:
        """Return the next bytes; empty at EOF."""
        return await self._secured.read()

    def half_close(self) -> None:
        """Do nothing: many servers take the end of one direction of TLS for the end of both."""

    def close(self) -> None:
        """End the connection."""
        self._plain.close()


@cache
def system_trust() -> ssl.SSLContext:
    """Return what every connection of the gateway's own is verified with: the authorities that this machine trusts."""
    made = ssl.create_default_context()
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    # What is checked and changed here is HTTP/1.1.
    made.set_alpn_protocols(["http/1.1"])
    return made


async def encrypt(plain: Plain, host: str, trust: Callable[[], ssl.SSLContext]) -> Encrypted:
    """Begin TLS with a server that must prove to be `host`; NotVerified if it does not."""
    secured = Secured(trust(), plain.receive, plain.send, server_hostname=host)
    try:
        async with asyncio.timeout(_HANDSHAKE_S):
            await secured.handshake()
    except ssl.SSLCertVerificationError as error:
        raise NotVerified(f"its certificate is not valid for {host}: {error.verify_message}") from None
    except (ssl.SSLError, ConnectionError) as error:
        raise NotVerified(f"no TLS could be agreed on: {getattr(error, 'reason', None) or error}") from None
    except TimeoutError:
        raise NotVerified(f"no TLS within {_HANDSHAKE_S:g} s") from None
    return Encrypted(plain, secured)
