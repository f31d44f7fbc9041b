"""Parse the first message of a TLS stream as far as it names the host. Pure, and fed by whatever runs inside."""

from __future__ import annotations

from dataclasses import dataclass

HANDSHAKE = 22
# The records that may come between two hellos: change_cipher_spec, alert, application_data (early data), heartbeat.
_BETWEEN = frozenset({20, 21, 23, 24})
# RFC 8446, 5.1: the most a record may hold; and more than any ClientHello with today's largest keys.
_LONGEST_RECORD, _LONGEST_HELLO = 1 << 14, 64 << 10
# RFC 5246, 6.2.3: what encryption and compression may add to it.
_LONGEST_ENCRYPTED = _LONGEST_RECORD + 2048
_CLIENT_HELLO = 1
_HEADER = 5
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_HOST_NAME = 0

# A fatal alert, unrecognized_name: what a server sends if it does not know the host.
UNRECOGNISED = bytes((21, 3, 3, 0, 2, 2, 112))


class BadHello(ValueError):
    """Not a ClientHello; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The host that a ClientHello names. `encrypted`: another host may be named where only the server sees it."""

    name: str | None
    encrypted: bool


class HelloReader:
    """Watches the client's side of a stream for every hello in it.

    A server may ask for the hello once more, so the first may not be the last that names a host. Nor is the stream
    encrypted once a record of another kind was seen: OpenSSL ignores an alert before the second hello, and any server
    skips early data that it did not take. So the records are followed to the end, unless a message shows that there
    is no TLS 1.3 here, in which alone a server asks again.
    """

    def __init__(self) -> None:
        self._records = bytearray()
        self._message = bytearray()
        self._skipping = 0
        self._seen = 0
        self.done = False

    @property
    def seen(self) -> int:
        """The number of hellos so far."""
        return self._seen

    def feed(self, data: bytes) -> list[Hello]:
        """Return the hellos that `data` completes; BadHello if it is not TLS or malformed."""
        found: list[Hello] = []
        self._records += data
        while not self.done and self._records:
            if self._skipping:
                self._skip()
                continue
            if len(self._records) < _HEADER:
                break
            kind, size = self._records[0], int.from_bytes(self._records[3:_HEADER], "big")
            self._check_record(kind, size)
            if kind in _BETWEEN:
                self._skipping = _HEADER + size
                continue
            if len(self._records) < _HEADER + size:
                break
            content = bytes(self._records[_HEADER : _HEADER + size])
            del self._records[: _HEADER + size]
            found += self._handshake(content)
        return found

    def _skip(self) -> None:
        """Pass over a record without holding it: the rest of most streams consists of these."""
        size = min(self._skipping, len(self._records))
        del self._records[:size]
        self._skipping -= size

    def _check_record(self, kind: int, size: int) -> None:
        largest = _LONGEST_RECORD if kind == HANDSHAKE else _LONGEST_ENCRYPTED
        if self._records[1] != 3 or not 0 < size <= largest:  # noqa: PLR2004  every version of TLS is 3.x
            raise BadHello("not a TLS record")
        if kind != HANDSHAKE and not (self._seen and kind in _BETWEEN):
            raise BadHello("a TLS stream that does not begin with a hello" if not self._seen else "not a TLS record")

    def _handshake(self, content: bytes) -> list[Hello]:
        self._message += content
        if self._message[0] != _CLIENT_HELLO:
            if not self._seen:
                raise BadHello("a handshake that does not begin with a hello")
            self.done = True
            return []
        if len(self._message) < 4:  # noqa: PLR2004  kind and length
            return []
        size = int.from_bytes(self._message[1:4], "big")
        if size > _LONGEST_HELLO:
            raise BadHello("a hello of more than 64 KiB")
        if len(self._message) < 4 + size:
            return []
        if len(self._message) > 4 + size:
            raise BadHello("data after the hello")
        hello = read_hello(bytes(self._message[4:]))
        self._message.clear()
        self._seen += 1
        return [hello]


def read_hello(body: bytes) -> Hello:
    """Parse the body of a ClientHello."""
    reading = _Reading(body)
    reading.take(2 + 32)
    reading.vector(1)
    reading.vector(2)
    reading.vector(1)
    name, encrypted, seen = None, False, set()
    extensions = _Reading(reading.vector(2) if reading.left else b"")
    if reading.left:
        raise BadHello("data after the extensions")
    while extensions.left:
        kind, content = int.from_bytes(extensions.take(2), "big"), extensions.vector(2)
        if kind in seen:
            raise BadHello("duplicate extension")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
        encrypted = encrypted or kind == _ENCRYPTED_HELLO
    return Hello(name=name, encrypted=encrypted)


def _server_name(content: bytes) -> str:
    outer = _Reading(content)
    names = _Reading(outer.vector(2))
    kind, name = names.take(1)[0], names.vector(2)
    if outer.left or names.left or kind != _HOST_NAME:
        raise BadHello("more than one server name")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise BadHello("a server name that is not ASCII") from None


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise BadHello("truncated hello")
        self._at += size
        return self._data[self._at - size : self._at]

    def vector(self, width: int) -> bytes:
        return self.take(int.from_bytes(self.take(width), "big"))
