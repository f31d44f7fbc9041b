"""Long requests: an answer that breaks off, and a body that does, are told and never waited for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker.engine import Engine, EngineAway, EngineRefused
from crabpot.images.sending import send

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Listener:
    """A server that hears a request's head and says what it was told to say."""

    def __init__(self, says: bytes) -> None:
        self._says = says
        self.heard = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heard = await reader.readuntil(b"\r\n\r\n")
        while b"\r\n0\r\n\r\n" not in self.heard and (piece := await reader.read(65536)):
            self.heard += piece
        writer.write(self._says)
        writer.close()


async def converse(folder: Path, says: bytes, body: Iterable[bytes]) -> tuple[list[dict[str, object]], bytes]:
    listener = Listener(says)
    async with await asyncio.start_unix_server(listener, f"{folder}/sock"), asyncio.timeout(20):
        engine = Engine(f"{folder}/sock")
        return [message async for message in send(engine, "/build", {"t": "a b"}, body)], listener.heard


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_messages_are_read_across_the_pieces_they_came_in(tmp_path: Path) -> None:
    says = (
        CHUNKED
        + b'8\r\n{"stream\r\n'
        + b'7\r\n": "a"}\r\n'
        + b"1\r\n\n\r\n"
        + b'11\r\n{"stream": "b"}\r\n\r\n0\r\n\r\n'
    )
    messages, heard = asyncio.run(converse(tmp_path, says, [b"one", b"", b"two"]))
    assert messages == [{"stream": "a"}, {"stream": "b"}]
    assert b"POST /build?t=a+b HTTP/1.1\r\n" in heard
    assert heard.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "says",
    [
        b'HTTP/1.1 200 OK\r\n\r\n{"error": "no room"}',
        b'HTTP/1.1 500 Oh\r\n\r\n{"message": "no room"}\n',
        CHUNKED + b'14\r\n{"error": "no room"}\r\n0\r\n\r\n',
    ],
)
def test_an_error_among_the_messages_is_raised(tmp_path: Path, says: bytes) -> None:
    with pytest.raises(EngineRefused, match="no room"):
        asyncio.run(converse(tmp_path, says, []))


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"SSH-2.0\r\n\r\n",
        CHUNKED,
        CHUNKED + b"zz\r\n",
        CHUNKED + b"9\r\n{}",
        CHUNKED + b"2\r\n[]\r\n0\r\n\r\n",
        CHUNKED + b"fffffffff\r\n",
    ],
)
def test_what_is_no_answer_loses_the_engine(tmp_path: Path, says: bytes) -> None:
    with pytest.raises(EngineAway, match="broke off"):
        asyncio.run(converse(tmp_path, says, []))


def test_a_body_that_breaks_off_is_no_whole_one(tmp_path: Path) -> None:
    def body() -> Iterator[bytes]:
        yield b"one"
        raise OSError("the disk is gone")

    with pytest.raises(EngineAway):
        asyncio.run(converse(tmp_path, b"HTTP/1.1 200 OK\r\n\r\n{}", body()))


def test_an_engine_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def ask() -> None:
        async for _ in send(Engine(f"{tmp_path}/nothing"), "/build", {}, []):
            pass

    with pytest.raises(EngineAway, match="does not answer"):
        asyncio.run(ask())
