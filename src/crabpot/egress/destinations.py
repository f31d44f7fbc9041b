"""The destination of a connection in one canonical form: what is matched is what is resolved and dialled.

Every trick is a second spelling of one place: letter case, a trailing dot, international digits, 0x7f.1, ::ffff:….
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias

from crabpot.spec.network import canonical_name

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LONGEST = 255
_HIGHEST_PORT = 65535
_DIGITS = re.compile(r"[0-9]{1,5}", re.ASCII)
_SHOWN = 80


class BadDestination(ValueError):
    """Not a destination that can be connected to; the message says why, and is safe to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A host and a port. `address` is set if the host is written as an address."""

    host: str
    port: int
    address: Address | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read(host: str, port: int) -> Destination:
    """Return the canonical form of a host as a program wrote it, IPv6 with or without brackets."""
    if not 0 < port <= _HIGHEST_PORT:
        raise BadDestination(f"{port} is not a port")
    if not host or len(host) > _LONGEST:
        raise BadDestination("a host name has from 1 to 253 characters")
    if any(not character.isprintable() or character.isspace() for character in host):
        raise BadDestination(f"{host[:_SHOWN]!a} has characters that no host name has")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare or bare is not host:
        address = _six(bare)
    else:
        name = _in_ascii(host).lower()
        if not _ends_in_number(name):
            return Destination(host=_name(name), port=port)
        address = _four(name)
    return Destination(host=str(address), port=port, address=address)


def read_authority(text: str, *, default_port: int | None = None) -> Destination:
    """Parse `host:port` or `[address]:port`, as in a CONNECT request or a Host header."""
    if "@" in text:
        raise BadDestination("a user name or password before the host is not supported")
    if text.startswith("["):
        host, bracket, tail = text.partition("]")
        host, found, port = host + bracket, tail[:1], tail[1:]
        if not bracket or (tail and found != ":"):
            raise BadDestination(f"{text[:_SHOWN]!a} is not [address]:port")
    else:
        host, found, port = text.partition(":")
    if not found and default_port is not None:
        return read(host, default_port)
    if not _DIGITS.fullmatch(port):
        raise BadDestination(f"{text[:_SHOWN]!a} has no numeric port")
    return read(host, int(port))


def embedded(address: Address) -> Address:
    """Return the IPv4 address that is really dialled if an IPv6 address only wraps it."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _in_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise BadDestination(f"{host[:_SHOWN]!a} is not an international host name") from None


def _ends_in_number(name: str) -> bool:
    """Return whether resolvers would take it for an IPv4 address in one of its old spellings."""
    last = name.removesuffix(".").rpartition(".")[2]
    return re.fullmatch(r"0x[0-9a-f]*|[0-9]+", last, re.ASCII) is not None


def _four(name: str) -> Address:
    try:
        return ipaddress.IPv4Address(name)
    except ValueError:
        raise BadDestination(f"{name[:_SHOWN]!a}: write an IPv4 address as four decimal numbers") from None


def _six(text: str) -> Address:
    if "%" in text:
        raise BadDestination(f"{text[:_SHOWN]!a}: an address with a zone is local to one machine's interfaces")
    try:
        return embedded(ipaddress.IPv6Address(text))
    except ValueError:
        raise BadDestination(f"{text[:_SHOWN]!a} is not an IPv6 address") from None


def _name(name: str) -> str:
    try:
        return canonical_name(name)
    except ValueError:
        raise BadDestination(f"{name[:_SHOWN]!a} is not a host name") from None
