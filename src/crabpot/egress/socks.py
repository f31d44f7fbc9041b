"""SOCKS 5 as far as the proxy needs it: no password, only CONNECT, names resolved here (socks5h). Pure."""

from __future__ import annotations

import ipaddress
from enum import IntEnum

from crabpot.egress.destinations import BadDestination, Destination, read

VERSION = 5
_CONNECT = 1
_FOUR, _NAME, _SIX = 1, 3, 4
_NO_PASSWORD, _NONE_FITS = 0, 0xFF

CHOSEN = bytes((VERSION, _NO_PASSWORD))
NOT_CHOSEN = bytes((VERSION, _NONE_FITS))


class Reply(IntEnum):
    """The reply codes of RFC 1928."""

    DONE = 0
    FAILED = 1
    NOT_ALLOWED = 2
    UNREACHABLE = 4
    REFUSED = 5
    NO_SUCH_COMMAND = 7
    NO_SUCH_ADDRESS = 8


class BadSocks(ValueError):
    """Not SOCKS 5, or not supported; `reply` is the code to send back."""

    def __init__(self, reply: Reply, message: str) -> None:
        super().__init__(message)
        self.reply = reply


def read_greeting(data: bytes) -> tuple[int, bool] | None:
    """Return the greeting's length and whether it accepts no password; None while it is incomplete."""
    if len(data) < 2 or len(data) < 2 + data[1]:  # noqa: PLR2004  version and count
        return None
    return 2 + data[1], _NO_PASSWORD in data[2 : 2 + data[1]]


def read_request(data: bytes) -> tuple[int, Destination] | None:
    """Return the request's length and its destination; None while it is incomplete."""
    if len(data) < 5:  # noqa: PLR2004  up to the length of a name
        return None
    version, command, _, kind, length = data[:5]
    if version != VERSION:
        raise BadSocks(Reply.FAILED, "not a SOCKS 5 request")
    if command != _CONNECT:
        raise BadSocks(Reply.NO_SUCH_COMMAND, "only CONNECT is supported, not BIND or UDP")
    size = {_FOUR: 4, _SIX: 16, _NAME: 1 + length}.get(kind)
    if size is None:
        raise BadSocks(Reply.NO_SUCH_ADDRESS, "neither a name nor an address")
    if len(data) < 4 + size + 2:
        return None
    raw, port = data[4 : 4 + size], int.from_bytes(data[4 + size : 6 + size], "big")
    try:
        return 6 + size, read(_host(kind, raw), port)
    except (BadDestination, UnicodeDecodeError) as error:
        raise BadSocks(Reply.NOT_ALLOWED, str(error)) from None


def _host(kind: int, raw: bytes) -> str:
    return raw[1:].decode("utf-8") if kind == _NAME else str(ipaddress.ip_address(raw))


def reply(code: Reply) -> bytes:
    """Return the reply to a request; the address in it is always zero, to reveal nothing."""
    return bytes((VERSION, code, 0, _FOUR)) + bytes(6)
