"""The client of the engine's API, against a double that says whatever it likes."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker import remedy
from crabpot.backends.docker.engine import Engine, EngineAway, EngineOld, EngineRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Double:
    """Answers every request with the same bytes, then hangs up; remembers what it was asked."""

    def __init__(self, answer: bytes, *, hangs: bool = False) -> None:
        self.answer = answer
        self.hangs = hangs
        self.asked: list[bytes] = []
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
        self.asked.append(head + await reader.readexactly(size))
        writer.write(self.answer)
        if self.hangs:
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def engine(folder: Path, double: Double) -> AsyncIterator[Engine]:
    path = str(folder / "engine.sock")
    async with await asyncio.start_unix_server(double.serve, path):
        yield Engine(path)
        await asyncio.gather(*double.serving)


async def test_an_answer_of_known_length_is_read(tmp_path: Path) -> None:
    double = Double(OK + b'Content-Length: 10\r\n\r\n{"a": [1]}')
    async with engine(tmp_path, double) as made:
        assert await made.post("/x", {"name": "a b"}, body={"k": "v"}) == {"a": [1]}
    assert double.asked[0].startswith(b"POST /x?name=a+b HTTP/1.1\r\n")
    assert double.asked[0].endswith(b'\r\n\r\n{"k": "v"}')


async def test_an_answer_in_chunks_is_read(tmp_path: Path) -> None:
    chunks = b'5;x=y\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n'
    async with engine(tmp_path, Double(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)) as made:
        assert await made.get("/x") == {"a": 1}


async def test_an_answer_to_the_end_of_the_stream_is_read(tmp_path: Path) -> None:
    async with engine(tmp_path, Double(OK + b"\r\n[1]")) as made:
        assert await made.get("/x") == [1]


async def test_a_refusal_has_its_status_and_the_engines_words(tmp_path: Path) -> None:
    answer = b'HTTP/1.1 409 Conflict\r\nContent-Length: 23\r\n\r\n{"message":"name used"}'
    async with engine(tmp_path, Double(answer)) as made:
        with pytest.raises(EngineRefused, match="name used") as caught:
            await made.post("/x")
    assert caught.value.status == 409


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"Content-Length: 5\r\n\r\n{}",
        OK + b"Content-Length: -5\r\n\r\n{}",
        OK + b"Content-Length: 99999999999\r\n\r\n{}",
        OK + b"Content-Length: many\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
        b"x" * 200_000,
    ],
)
async def test_what_is_no_answer_is_an_engine_that_is_away(tmp_path: Path, answer: bytes) -> None:
    async with engine(tmp_path, Double(answer)) as made:
        with pytest.raises(EngineAway):
            await made.get("/x")


async def test_an_engine_that_never_answers_is_away(tmp_path: Path) -> None:
    async with engine(tmp_path, Double(b"", hangs=True)) as made:
        with pytest.raises(EngineAway, match="did not answer GET /x within"):
            await made.get("/x", timeout_s=0.05)
        with pytest.raises(EngineAway, match="did not attach within"):
            await made.attach("c", timeout_s=0.05)


async def test_a_missing_or_closed_socket_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EngineAway, match="is it running"):
        await Engine(str(tmp_path / "none.sock")).get("/x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
async def test_a_socket_of_others_says_what_to_do(tmp_path: Path) -> None:
    async with engine(tmp_path, Double(OK)) as made:
        os.chmod(made.path, 0)
        with pytest.raises(EngineAway, match="group docker"):
            await made.get("/x")


@pytest.mark.parametrize(
    ("newest", "oldest", "chosen"),
    [("1.41", "1.12", "/v1.41"), ("1.51", "1.24", "/v1.41"), ("1.52", "1.44", "/v1.44")],
)
async def test_the_oldest_version_that_both_know_is_chosen(
    tmp_path: Path, newest: str, oldest: str, chosen: str
) -> None:
    said = f'{{"Version":"x","ApiVersion":"{newest}","MinAPIVersion":"{oldest}"}}'.encode()
    async with engine(tmp_path, Double(OK + b"\r\n" + said)) as made:
        await made.negotiate()
        assert made.version == chosen


@pytest.mark.parametrize("said", [b'{"Version":"19.03","ApiVersion":"1.40"}', b"{}", b'{"ApiVersion":"new"}'])
async def test_an_old_engine_is_told_to_be_updated(tmp_path: Path, said: bytes) -> None:
    async with engine(tmp_path, Double(OK + b"\r\n" + said)) as made:
        with pytest.raises(EngineOld, match=r"1\.41 is needed: update it"):
            await made.negotiate()


async def test_a_stream_that_begins_before_the_container_does_is_refused(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\nhello"
    async with engine(tmp_path, Double(answer)) as made:
        with pytest.raises(EngineRefused, match="hello"):
            await made.attach("c")


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("mkdir /var/lib/docker/x: no space left on device", "docker system prune"),
        ("invalid mount config: bind source path does not exist: /srv/x", "make it, or remove the bind"),
        ("unknown or invalid runtime name: kata", "docker.runtime"),
        ("network lab not found", "docker network create"),
        ("apparmor failed to apply profile: no such file", "apparmor_parser"),
        ("the engine at /x does not answer: gone", "the next call opens a new sandbox"),
    ],
)
def test_a_refusal_says_what_to_do(said: str, advice: str) -> None:
    assert advice in str(remedy.explain(EngineRefused(500, said)))
