"""What a program gives as input and takes as output, as the streams of a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.wire.calls import Source
    from crabpot.wire.in_flight import Sink

_CHUNK = 1 << 20


class Readable(Protocol):
    """A file open for reading bytes."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, none at the end."""


Input: TypeAlias = bytes | bytearray | str | Readable | Iterable[bytes] | AsyncIterable[bytes]
Taker: TypeAlias = Callable[[str, bytes], Awaitable[None] | None]


def source_of(given: Input) -> Source:
    """Return bytes, text, an open file or pieces as the input of a call."""
    if isinstance(given, str):
        return _whole(given.encode())
    if isinstance(given, bytes | bytearray):
        return _whole(bytes(given))
    if isinstance(given, AsyncIterable):
        return aiter(given)
    if hasattr(given, "read"):
        return _file(given)
    return _pieces(given)


async def _whole(data: bytes) -> AsyncIterator[bytes]:
    if data:
        yield data


async def _file(file: Any) -> AsyncIterator[bytes]:
    # In a thread: it may be a pipe, and everything else goes on meanwhile.
    while piece := await asyncio.to_thread(file.read, _CHUNK):
        yield piece


async def _pieces(given: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in given:
        if piece:
            yield piece


def sink_of(taker: Taker) -> Sink:
    """Return a function of the program, async or not, as what takes the output of a call."""

    async def take(stream: str, data: bytes) -> None:
        waited = taker(stream, data)
        if waited is not None:
            await waited

    return take


class Collected:
    """Keeps the output of a call, byte by byte."""

    def __init__(self) -> None:
        self._kept: dict[str, bytearray] = {}

    async def take(self, stream: str, data: bytes) -> None:
        """Keep the next piece."""
        self._kept.setdefault(stream, bytearray()).extend(data)

    def bytes(self, stream: str) -> bytes:
        """Return what came by one stream."""
        return bytes(self._kept.get(stream, b""))
