"""HTTP/1 requests that pass the gateway: parsed strictly, written anew, one per connection. Pure.

Request smuggling needs two programs that read one request differently, so whatever is ambiguous is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.egress.destinations import BadDestination, Destination, read_authority

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_HEAD = 64 << 10
_MOST_HEADERS = 128
_HTTP_PORT, _HTTPS_PORT = 80, 443
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]{1,32768}) HTTP/1\.([01])")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")
# Hop-by-hop headers. An upgrade would turn the stream into one that is not checked here.
_OF_ONE_HOP = (
    b"connection",
    b"proxy-connection",
    b"keep-alive",
    b"proxy-authorization",
    b"te",
    b"upgrade",
    b"http2-settings",
)
# A server that reads one of these differently sees another request.
_FRAMING = (b"host", b"content-length", b"transfer-encoding")
# TRACE echoes the request, including injected secrets.
_REFUSED_METHODS = (b"TRACE", b"TRACK", b"PRI")


class BadRequest(ValueError):
    """A request that is not passed on; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The head of a request. `size` is the body's, None if that is chunked."""

    method: bytes
    target: bytes
    minor: int
    headers: tuple[tuple[bytes, bytes], ...]
    size: int | None

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of the headers with this name."""
        return [value for key, value in self.headers if key.lower() == name]


def read_head(head: bytes) -> Request:
    """Parse a head, from its first byte to the empty line at its end."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _LINE.fullmatch(first)
    if found is None:
        raise BadRequest("the first line is not that of an HTTP/1 request")
    if found[1].upper() in _REFUSED_METHODS:  # Some servers ignore letter case.
        raise BadRequest(f"{found[1].decode()} is not passed on")
    if len(lines) > _MOST_HEADERS:
        raise BadRequest(f"more than {_MOST_HEADERS} headers")
    made = Request(method=found[1], target=found[2], minor=int(found[3]), headers=tuple(map(_header, lines)), size=0)
    return replace(made, size=_size(made))


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    # Also refuses a continuation line, and a space before the colon: servers differ on both.
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadRequest("malformed header")
    if _folded(name) in _FRAMING and name.lower() not in _FRAMING:
        raise BadRequest("a header name that some servers confuse with another")
    return name, value.strip(b" \t")


def _folded(name: bytes) -> bytes:
    """Return a header's name as CGI servers see it: X-Api-Key, x_api_key and X.Api.Key are one variable."""
    return re.sub(rb"[^0-9a-z]", b"-", name.lower())


def _size(request: Request) -> int | None:
    lengths, codings = request.values(b"content-length"), request.values(b"transfer-encoding")
    if codings:
        if lengths or [coding.lower() for coding in codings] != [b"chunked"] or request.minor == 0:
            raise BadRequest("a body whose length can be read in two ways")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise BadRequest("a body whose length can be read in two ways")
    return int(lengths[0])


def destination_of(request: Request) -> tuple[Destination, bytes]:
    """Return the destination of a proxy request and its path there; its Host header has to agree."""
    scheme, slashes, rest = request.target.partition(b"://")
    if scheme.lower() != b"http" or not slashes:
        raise BadRequest("a proxy takes http://host/path, or CONNECT host:port for everything else")
    end = min((at for at in (rest.find(mark) for mark in b"/?#") if at >= 0), default=len(rest))
    destination = read_authority(rest[:end].decode("ascii"), default_port=_HTTP_PORT)
    path = rest[end:].partition(b"#")[0]
    check_host(request, destination, required=False)
    return destination, path if path.startswith(b"/") else b"/" + path


def check_host(request: Request, destination: Destination, *, required: bool = True) -> None:
    """Refuse a request for a host other than the connection's: many hosts share an address."""
    hosts = request.values(b"host")
    if not hosts and not required:
        return
    if len(hosts) != 1:
        raise BadRequest(f"{len(hosts)} Host headers; one is needed, and it must name {destination.host}")
    try:
        named = read_authority(hosts[0].decode("ascii"), default_port=destination.port)
    except (BadDestination, UnicodeDecodeError):
        raise BadRequest("the Host header names no host") from None
    if named != destination:
        raise BadRequest(f"the Host header names {named}, but the connection is to {destination}")


def check_inside(request: Request, destination: Destination) -> None:
    """Refuse a request in a tunnel that is for another host."""
    if request.method == b"CONNECT" or not request.target.startswith((b"/", b"*")):
        raise BadRequest("a tunnel is to one host, so a request in it names only a path")
    check_host(request, destination)


def write_head(
    request: Request, destination: Destination, path: bytes, added: Iterable[tuple[bytes, bytes]] = ()
) -> bytes:
    """Return a new head for a connection that ends with its response; `added` replaces headers of the same name."""
    more = tuple(added)
    gone = {*_OF_ONE_HOP, b"host"}
    replaced = {_folded(name) for name, _ in more}
    for listed in request.values(b"connection"):
        gone.update(name.strip(b" \t").lower() for name in listed.split(b","))
    # Whatever a request declares hop-by-hop, its body's length must stay.
    gone -= {b"content-length", b"transfer-encoding"}
    host = str(destination)
    if destination.port in (_HTTP_PORT, _HTTPS_PORT):
        host = host.removesuffix(f":{destination.port}")
    kept = [pair for pair in request.headers if pair[0].lower() not in gone and _folded(pair[0]) not in replaced]
    lines = [
        b"%s %s HTTP/1.%d" % (request.method, path, request.minor),
        b"Host: " + host.encode("ascii"),
        *(b"%s: %s" % pair for pair in (*kept, *more)),
        b"Connection: close",
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


class Body:
    """A body in transit: passes its own bytes and not one more, so that nothing hides after its end."""

    def __init__(self, size: int | None) -> None:
        self._chunked = size is None
        self._left = size or 0
        self._line = bytearray()
        self._expects = b"size" if self._chunked else b"data"
        self.complete = size == 0

    def feed(self, data: bytes) -> bytes:
        """Return the part of `data` that belongs to the body, or raise BadRequest for malformed chunks."""
        if not self._chunked:
            passed = data[: self._left]
            self._left -= len(passed)
            self.complete = self._left == 0
            return passed
        passed_on = bytearray()
        view = memoryview(data)
        while view and not self.complete:
            used = self._data(view) if self._expects == b"data" else self._lines(view)
            passed_on += view[:used]
            view = view[used:]
        return bytes(passed_on)

    def _data(self, view: memoryview) -> int:
        used = min(self._left, len(view))
        self._left -= used
        if self._left == 0:
            self._expects = b"end"
        return used

    def _lines(self, view: memoryview) -> int:
        end = bytes(view[:256]).find(b"\n")
        used = end + 1 if end >= 0 else min(len(view), 256)
        self._line += view[:used]
        if len(self._line) > 256:  # noqa: PLR2004  far beyond any honest chunk
            raise BadRequest("malformed chunk")
        if end >= 0:
            self._take(bytes(self._line))
            self._line.clear()
        return used

    def _take(self, line: bytes) -> None:
        if self._expects in (b"end", b"last"):
            if line != b"\r\n":
                raise BadRequest("malformed chunk")
            self.complete = self._expects == b"last"
            self._expects = b"size"
            return
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,15}\r\n", line):
            raise BadRequest("malformed chunk")
        self._left = int(line, 16)
        self._expects = b"data" if self._left else b"last"
