"""What two readers of HTTP could understand in two ways is refused, and nothing that comes with it is heard."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from crabpot.doors.http.protocol import MOST_HEAD

PATIENCE_S = 30.0
POST = b"POST /v1/sessions/agent:main:main/tools/nothing HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
END = b"0\r\n\r\n"

AMBIGUOUS = {
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "chunks and a length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + END,
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "the same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a length below nothing": POST + b"Content-Length: -2\r\n\r\n{}",
    "a length in another base": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "a length beyond 64 bits": POST + b"Content-Length: 18446744073709551618\r\n\r\n{}",
    "no length": POST + b"Content-Length:\r\n\r\n{}",
    "a coding before chunks": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + END,
    "a coding after chunks": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + END,
    "chunks twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "a coding in two headers": POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "almost chunks": POST + b"Transfer-Encoding: xchunked\r\n\r\n" + END,
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n{}",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n" + END,
    "a line that continues": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + END,
    "a first header that continues": b"GET /health HTTP/1.1\r\n Host: x\r\n\r\n",
    "lines that end in LF": HEALTH.replace(b"\r\n", b"\n"),
    "one line that ends in LF": b"GET /health HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
    "one line that ends in CR": b"GET /health HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "a NUL in a value": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "a control character in a name": b"GET /health HTTP/1.1\r\nHost: x\r\nX\x01: y\r\n\r\n",
    "a space in a name": b"GET /health HTTP/1.1\r\nHost: x\r\nX Y: y\r\n\r\n",
    "a header without a colon": b"GET /health HTTP/1.1\r\nHost: x\r\nXY\r\n\r\n",
    "a header without a name": b"GET /health HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
    "the version before the first": b"GET /health\r\n\r\n",
    "version 0.9": HEALTH.replace(b"1.1", b"0.9"),
    "version 1.2": HEALTH.replace(b"1.1", b"1.2"),
    "version 2": HEALTH.replace(b"1.1", b"2.0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another address": b"GET http://elsewhere/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    "a fragment": b"GET /health#a HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes beyond ASCII": b"GET /h\xc3\xa9alth HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method in small letters": HEALTH.replace(b"GET", b"get"),
    "a method that nobody knows": HEALTH.replace(b"GET", b"GETS"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a long target": b"GET /" + b"a" * MOST_HEAD + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long value": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * MOST_HEAD + b"\r\n\r\n",
    "many headers": b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 12_000 + b"\r\n",
}

BROKEN_BODIES = {
    "lines that end in LF": b"2\n{}\n0\n\n",
    "a space after the size": b"2 \r\n{}\r\n" + END,
    "a size with a sign": b"+2\r\n{}\r\n" + END,
    "a size in another base": b"0x2\r\n{}\r\n" + END,
    "a size beyond 64 bits": b"10000000000000002\r\n{}\r\n" + END,
    "more than the size": b"2\r\n{} \r\n" + END,
    "no size": b"\r\n{}\r\n" + END,
}


async def connect(made):
    return await asyncio.open_unix_connection(os.path.join(made.made.state, "http.sock"))


async def heard(reader):
    """Return all that is answered until the other side ends the connection."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("sent", AMBIGUOUS.values(), ids=AMBIGUOUS)
async def test_what_is_ambiguous_is_refused_with_all_that_follows(door, sent):
    async with door() as made:
        reader, writer = await connect(made)
        writer.write(sent + HEALTH)
        said = await heard(reader)
        head, _, body = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close" in head
        assert json.loads(body)["error"]["code"] == "bad_request"
        writer.close()


@pytest.mark.parametrize("body", BROKEN_BODIES.values(), ids=BROKEN_BODIES)
async def test_a_broken_body_ends_its_connection_and_nothing_after_it_is_heard(door, body):
    async with door() as made:
        reader, writer = await connect(made)
        writer.write(CHUNKED + body + HEALTH)
        said = await heard(reader)
        assert (said[:13], said.count(b"HTTP/1.1 ")) == (b"HTTP/1.1 400 ", 1)
        writer.close()


async def test_headers_after_a_body_are_not_heard(door):
    async with door() as made:
        reader, writer = await connect(made)
        late = b"2\r\n{}\r\n0\r\nOrigin: http://elsewhere\r\nCrabpot-Sender: somebody\r\n\r\n"
        writer.write(CHUNKED.replace(b"nothing", b"ls") + late)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert head.startswith(b"HTTP/1.1 200 ")
        writer.close()


ENDLESS = {
    "a header": HEALTH[:-2] + b"X: ",
    "an extension of a chunk": CHUNKED + b"2;",
    "a header after a body": CHUNKED + END[:-2] + b"X: ",
}


@pytest.mark.parametrize("before", ENDLESS.values(), ids=ENDLESS)
async def test_what_never_ends_is_not_kept(door, before):
    async with door() as made:
        reader, writer = await connect(made)
        writer.write(before)

        async def flood():
            try:
                while True:
                    writer.write(b"a" * 4096)
                    await writer.drain()
            except ConnectionError:
                return

        flooding = asyncio.create_task(flood())
        assert b" 200 " not in await heard(reader)
        await asyncio.wait_for(flooding, PATIENCE_S)
        writer.close()


async def test_a_request_that_would_become_something_else_is_answered_and_so_is_the_next(door):
    async with door() as made:
        reader, writer = await connect(made)
        for upgrade in (b"h2c", b"websocket"):
            asked = b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
            writer.write(HEALTH.replace(b"\r\n\r\n", b"\r\n" + asked) + HEALTH)
            for _ in range(2):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
                assert head.startswith(b"HTTP/1.1 200 ")
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
        writer.close()


async def test_requests_that_come_before_an_answer_are_answered_in_turn_up_to_a_few(door):
    async with door() as made:
        reader, writer = await connect(made)
        writer.write(HEALTH * 4 + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert (await heard(reader)).count(b"HTTP/1.1 200 ") == 5
        writer.close()
        reader, writer = await connect(made)
        writer.write(HEALTH * 1000)
        assert (await heard(reader)).count(b"HTTP/1.1 200 ") < 1000
        writer.close()
