"""Connect, the protocol of the SDKs' remote calls, with JSON: unary calls, and streams of envelopes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crabpot.doors.e2b.refusals import RpcError
from crabpot.doors.http.access.bodies import TooManyValues, Values
from crabpot.doors.http.access.limits import MOST_JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from crabpot.doors.http.routes.streaming import Pieces

UNARY, STREAM = "application/json", "application/connect+json"

_HEAD = 5
_COMPRESSED, _LAST = 0x01, 0x02
# A piece of input in one envelope.
_MOST_IN_STREAM = 4 * 1024 * 1024
_LONGEST_TIMEOUT_DIGITS = 10


def envelope(message: dict[str, Any], *, last: bool = False) -> bytes:
    """Return one envelope: flags, length, and the message."""
    data = json.dumps(message).encode()
    return bytes([_LAST if last else 0]) + len(data).to_bytes(4, "big") + data


class Stream:
    """The messages of one streamed answer."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    async def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        await self._pieces.send(envelope(message))

    async def end(self, error: RpcError | None = None) -> None:
        """Send the end, with the error if there is one."""
        said = {} if error is None else {"error": {"code": error.code, "message": error.message}}
        await self._pieces.send(envelope(said, last=True))


async def unary(request: Request) -> dict[str, Any]:
    """Return the message of a unary call."""
    _check(request, UNARY, "content-encoding")
    return _parsed(await request.body())


async def only(request: Request) -> dict[str, Any]:
    """Return the only message of a call whose answer is a stream."""
    _check(request, STREAM, "connect-content-encoding")
    body = await request.body()
    size = _size(body[:_HEAD], MOST_JSON)
    if len(body) != _HEAD + size:
        raise RpcError("invalid_argument", f"an envelope of {size} bytes has {max(0, len(body) - _HEAD)}")
    return _parsed(body[_HEAD:])


async def messages(request: Request) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a call that streams them; none is larger than one piece of input may be."""
    _check(request, STREAM, "connect-content-encoding")
    held = bytearray()
    async for data in request.stream():
        held += data
        while len(held) >= _HEAD and len(held) >= _HEAD + (size := _size(held[:_HEAD], _MOST_IN_STREAM)):
            message = bytes(held[_HEAD : _HEAD + size])
            del held[: _HEAD + size]
            yield _parsed(message)
    if held:
        raise RpcError("invalid_argument", "the last envelope is not whole")


def timeout_of(request: Request) -> float | None:
    """Return the time in seconds that the client gives the call, or None."""
    given = request.headers.get("connect-timeout-ms")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > _LONGEST_TIMEOUT_DIGITS:
        raise RpcError("invalid_argument", "Connect-Timeout-Ms is a number of at most ten digits")
    return int(given) / 1000 or None


def _check(request: Request, kind: str, encoding: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != kind:
        error = RpcError("unimplemented", f"the content type here is {kind}; protobuf is not offered")
        error.status = 415
        raise error
    if request.headers.get(encoding, "identity").lower() != "identity":
        raise RpcError("unimplemented", "compressed messages are not offered; send identity")


def _size(head: bytes | bytearray, most: int) -> int:
    """Return the length of an envelope from its head."""
    if len(head) < _HEAD:
        raise RpcError("invalid_argument", "an envelope begins with five bytes")
    if head[0] & _COMPRESSED:
        raise RpcError("unimplemented", "compressed messages are not offered; send identity")
    if head[0]:
        raise RpcError("invalid_argument", f"flags {head[0]} are not a client's")
    size = int.from_bytes(head[1:], "big")
    if size > most:
        raise RpcError("resource_exhausted", f"an envelope of {size} bytes; {most} at most")
    return size


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        Values().count(data)
        value = json.loads(data or b"{}")
    except TooManyValues:
        raise RpcError("resource_exhausted", "the message has too many values") from None
    except (ValueError, RecursionError):
        raise RpcError("invalid_argument", "the message is not JSON") from None
    if not isinstance(value, dict):
        raise RpcError("invalid_argument", "the message must be an object")
    return value
