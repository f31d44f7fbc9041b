"""Long requests to the engine: a body that is sent in pieces, and an answer that is read line by line meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from crabpot.backends.docker.engine import EngineAway, EngineRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from crabpot.backends.docker.engine import Engine

_LONGEST_LINE = 1024**2
_OK = 200


async def send(
    engine: Engine, path: str, query: Mapping[str, str], body: Iterable[bytes]
) -> AsyncIterator[dict[str, Any]]:
    """Post a body and yield each message of the answer. Leaving early closes the connection: the engine gives up."""
    try:
        reader, writer = await asyncio.open_unix_connection(engine.path, limit=_LONGEST_LINE)
    except OSError as error:
        raise EngineAway(f"the engine at {engine.path} does not answer: {error.strerror}") from None
    sending = asyncio.create_task(_send(writer, f"{engine.version}{path}?{urlencode(query)}", body))
    try:
        async for message in _messages(reader):
            yield message
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise EngineAway(f"the engine at {engine.path} broke off: {error}") from None
    finally:
        sending.cancel()
        writer.close()
        await asyncio.gather(sending, return_exceptions=True)


async def _send(writer: asyncio.StreamWriter, target: str, body: Iterable[bytes]) -> None:
    head = f"POST {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: crabpot\r\nConnection: close\r\n"
    try:
        writer.write(f"{head}Content-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n".encode("ascii"))
        for piece in body:
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    except BaseException:
        # A truncated body must not be taken for a whole one, and nobody should wait for its answer.
        writer.transport.abort()
        raise


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    status = int((await reader.readline()).split(b" ", 2)[1])
    chunked = False
    while (line := await reader.readline()).strip():
        chunked = chunked or line.lower().replace(b" ", b"").strip() == b"transfer-encoding:chunked"
    left = b""
    async for piece in _pieces(reader) if chunked else _rest(reader):
        *lines, left = (left + piece).split(b"\n")
        if len(left) > _LONGEST_LINE:
            raise ValueError("a line that does not end")
        for text in lines:
            if message := _message(text, status):
                yield message
    if message := _message(left, status):
        yield message


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readline()).partition(b";")[0], 16):
        if size > 64 * _LONGEST_LINE:
            raise ValueError("a piece that is too large")
        yield await reader.readexactly(size)
        await reader.readexactly(2)


async def _rest(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(65536):
        yield piece


def _message(line: bytes, status: int) -> dict[str, Any] | None:
    if not line.strip():
        return None
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not a message")  # noqa: TRY004  of the engine's, not of a caller's
    wrong = message.get("error") or (message.get("message") if status != _OK else None)
    if wrong is not None:
        raise EngineRefused(status, str(wrong))
    return message
