"""Check that the first bytes on a tunnel name the host that the tunnel is for. Pure.

One address serves many hosts, and the name inside the stream decides which: a tunnel to a listed host must not reach
an unlisted one beside it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from crabpot.egress.destinations import BadDestination, read
from crabpot.egress.tls import HANDSHAKE, BadHello, Hello, HelloReader

if TYPE_CHECKING:
    from crabpot.egress.destinations import Destination

_TLS_PORT, _HTTP_PORT = 443, 80
# No server accepts one of these in the first line of a request; many binary protocols begin with one.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_LONGEST_LINE = 8 << 10
# RFC 4253, 4.2, without a slash: no web server could take the rest of such a line for a path.
_SSH = re.compile(rb"SSH-2\.0-[\x21-\x2e\x30-\x7e][\x20-\x2e\x30-\x7e]{0,240}\r")
_SSH_PACKET, _SSH_KEXINIT = 6, 20
_LARGEST_SSH_PACKET = 256 << 10


class Speaks(Enum):
    """The protocol of a stream."""

    UNKNOWN = "unknown"
    TLS = "tls"
    HTTP = "http"
    SSH = "ssh"
    OTHER = "other"


class Disagreement(ValueError):
    """A stream that is not for the host it was opened for; the message says why."""


def speaks(start: bytes) -> Speaks:
    """Return the protocol of a client's first bytes, or None while they are too few to tell."""
    if not start:
        return Speaks.UNKNOWN
    if start[0] == HANDSHAKE:
        return Speaks.TLS
    # Servers skip blank lines and spaces before a request, and accept odd spaces in it: so do we, to refuse it.
    line, ended, _ = start.lstrip(b"\r\n\t\v\f ").partition(b"\n")
    if _CONTROL.search(line):
        return Speaks.OTHER
    if ended:
        if b"HTTP/" in line.upper():
            return Speaks.HTTP
        return Speaks.SSH if _SSH.fullmatch(start.partition(b"\n")[0]) else Speaks.OTHER
    if len(start) > _LONGEST_LINE:
        raise Disagreement("the first line has no end, so it cannot be checked")
    return Speaks.UNKNOWN


def check_kind(found: Speaks, destination: Destination, *, everything: bool) -> None:
    """Refuse what cannot be checked: a server may still find a request in it, for a host other than the one listed."""
    unread = f'to let it pass unchecked, add "{destination}" to network.raw'
    named = destination.address is None
    if named and destination.port == _TLS_PORT and found is not Speaks.TLS:
        raise Disagreement(f"port 443 is for TLS, and this is not TLS, so it cannot be checked; {unread}")
    if named and destination.port == _HTTP_PORT and found is not Speaks.HTTP:
        raise Disagreement(f"port 80 is for HTTP/1, and this is not HTTP/1, so it cannot be checked; {unread}")
    if found is Speaks.OTHER and not everything:
        raise Disagreement(f"it is neither TLS, HTTP/1 nor ssh, so it cannot be checked; {unread}")


class SshCheck:
    """Lets an ssh stream pass once its first packet is ssh: text after the first line might be for another server."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._held = b""
        self._identified = False
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes that may pass, or raise Disagreement."""
        self._held += data
        passed = b""
        if not self._identified:
            line, ended, self._held = self._held.partition(b"\n")
            passed, self._identified = line + ended, True
        if len(self._held) >= _SSH_PACKET:
            size, kind = int.from_bytes(self._held[:4], "big"), self._held[5]
            if size > _LARGEST_SSH_PACKET or kind != _SSH_KEXINIT:
                unread = f'to let it pass unchecked, add "{self._destination}" to network.raw'
                raise Disagreement(f"the stream begins like ssh and is not; {unread}")
            passed, self.done = passed + self._held, True
        return passed


class TlsCheck:
    """Lets a TLS stream pass while each hello in it is for the host of the tunnel."""

    def __init__(self, destination: Destination, *, everything: bool) -> None:
        self._destination = destination
        self._everything = everything
        self._reader = HelloReader()
        self._held = b""

    @property
    def done(self) -> bool:
        """Whether no further hello can come."""
        return self._reader.done

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the stream that may pass, or raise Disagreement."""
        try:
            hellos = self._reader.feed(data)
        except BadHello as error:
            raise Disagreement(f"the stream begins like TLS and is not: {error}") from None
        for hello in hellos:
            self._check(hello)
        self._held += data
        if not self._reader.seen:
            return b""
        passed, self._held = self._held, b""
        return passed

    def _check(self, hello: Hello) -> None:
        host = self._destination.host
        if self._everything and self._destination.address is not None:
            return
        if hello.encrypted and not self._everything:
            raise Disagreement(f"the TLS hello hides a second host name (ECH), so {host} cannot be checked")
        if self._destination.address is not None:
            if hello.name is not None:
                raise Disagreement(f"{host} is listed by address, and the TLS inside names {hello.name!a}")
            return
        if hello.name is None:
            raise Disagreement(f"the TLS inside names no host (no SNI), so {host} cannot be checked")
        try:
            named = read(hello.name, self._destination.port)
        except BadDestination:
            named = None
        if named != self._destination:
            raise Disagreement(f"the TLS inside names {hello.name!a} (SNI), but the connection is to {host}")
