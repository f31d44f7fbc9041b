"""One who takes all it can get at the doors takes nothing from anybody else: connections, sessions, slow requests."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from contextlib import asynccontextmanager

import pytest

from crabpot.doors.http.access.bodies import MOST_VALUES
from crabpot.doors.http.access.connections import MOST_EACH, STRANGERS, Connections
from crabpot.doors.http.access.limits import Limits
from crabpot.doors.http.access.peers import uid_of
from crabpot.doors.http.access.principals import Role

S = "agent:main:main"
LS = f"/v1/sessions/{S}/tools/ls"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}
MANY = 600
# What a busy machine may take to notice that a connection is closed.
PATIENCE_S = 30.0


@asynccontextmanager
async def connections(made, count, first=b""):
    """Open so many, send a first request on each and read its answer, then a single byte."""
    port = int(made.url.rpartition(":")[2])
    opened = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append((reader, writer))
            if first:
                writer.write(first.replace(b"HOST", made.url.removeprefix("http://").encode()))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
            writer.write(b"G")
            await writer.drain()
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def closed(reader):
    """Wait until the other side has ended it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while await reader.read(65536):
                pass
    except ConnectionError:
        pass


def bearing(token):
    return f"GET /metrics HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


HEALTH = b"GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n"


async def test_half_open_connections_do_not_close_the_door(door):
    async with door() as made, connections(made, MANY):
        assert (await made.client(made.tokens.rotate("operator")).post(LS)).status_code == 200
        assert (await made.stranger.get("/health")).status_code == 200


async def test_whoever_sent_a_token_is_heard_amid_a_flood_of_the_same_user(door):
    async with door() as made:
        token = made.tokens.rotate("operator")
        where, name = ("127.0.0.1", int(made.url.rpartition(":")[2])), made.url.removeprefix("http://")
        flood = []
        # All of it waits in the kernel before the gateway has its turn.
        for number in range(900):
            flood.append(socket.create_connection(where))
            if number == 300:
                asking = socket.create_connection(where)
                asking.sendall(bearing(token).replace(b"HOST", name.encode()))
        reader, writer = await asyncio.open_connection(sock=asking)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        for sock in flood:
            sock.close()


async def test_a_byte_of_a_second_request_on_many_connections_does_not_close_the_door(door):
    async with door() as made, connections(made, MANY, HEALTH):
        assert (await made.client(made.tokens.rotate("operator")).post(LS)).status_code == 200


async def test_the_connections_of_one_token_are_its_own_to_run_out_of(door):
    async with door() as made:
        token = made.tokens.add("observer", Role.OBSERVER)
        async with connections(made, MANY, bearing(token)) as opened:
            assert (await made.client(made.tokens.rotate("operator")).post(LS)).status_code == 200
            # The oldest were dropped for the newest, which are served.
            await closed(opened[0][0])
            opened[-1][1].write(bearing(token)[1:].replace(b"HOST", made.url.removeprefix("http://").encode()))
            assert (await opened[-1][0].readline()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("first", [b"", HEALTH])
async def test_every_request_of_a_connection_has_its_deadline(door, first):
    async with door(limits=Limits(request_s=1.0)) as made, connections(made, 3, first) as opened:
        for reader, _ in opened:
            await closed(reader)


async def test_a_body_that_nobody_reads_any_more_keeps_no_connection(door):
    async with door(limits=Limits(request_s=1.0)) as made:
        start = f"POST {LS} HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000\r\n\r\n".encode()
        async with connections(made, 1, start) as [(reader, writer)]:

            async def dribble():
                while True:
                    writer.write(b"x")
                    await asyncio.sleep(0.2)

            dribbling = asyncio.create_task(dribble())
            await closed(reader)
            dribbling.cancel()


@pytest.mark.parametrize(("method", "path"), [("POST", LS), ("POST", "/mcp"), ("PUT", f"/v1/sessions/{S}/files/slow")])
async def test_a_body_that_never_comes_ends_its_request(door, method, path):
    async with door(limits=Limits(request_s=1.0)) as made:
        token = made.tokens.rotate("operator")
        lines = (
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 1000\r\n"
        )
        start = f"{method} {path} HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {token}\r\n{lines}\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(made.url.rpartition(":")[2]))
        writer.write(start.replace(b"HOST", made.url.removeprefix("http://").encode()) + b"{")
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await closed(reader)
        writer.close()
        assert (await made.operator.get(f"/v1/sessions/{S}/files/slow")).status_code == 404


async def test_an_upload_may_take_longer_than_a_request_as_long_as_it_goes_on(door):
    async def slowly():
        for _ in range(8):
            yield b"x"
            await asyncio.sleep(0.2)

    async with door(limits=Limits(request_s=1.0)) as made:
        answer = await made.operator.put(f"/v1/sessions/{S}/files/slow", content=slowly())
        assert (answer.status_code, answer.json()["data"]["size"]) == (201, 8)


@pytest.mark.parametrize("path", [LS, "/mcp"])
async def test_bodies_that_never_end_take_one_principals_memory_and_no_more(door, path):
    """Each holds all but the last byte of what it promised; before, a token held four gigabytes so."""
    async with door() as made:
        token = made.tokens.rotate("operator")
        port, size = int(made.url.rpartition(":")[2]), 16 * 2**20
        lines = f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {size}\r\n"
        host = made.url.removeprefix("http://")
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{lines}\r\n".encode()
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for _, writer in opened:
            writer.write(head + b'"' + b"x" * (size - 2))
        done, waiting = await asyncio.wait(
            {asyncio.create_task(reader.readline()) for reader, _ in opened},
            return_when=asyncio.FIRST_COMPLETED,
            timeout=PATIENCE_S,
        )
        assert next(task.result() for task in done).startswith(b"HTTP/1.1 429 ")
        # Its own later ones wait for it, others' do not.
        other = made.client(made.tokens.add("other", Role.AGENT, sessions=(S,)))
        assert (await other.post(LS)).status_code == 200
        for task in waiting:
            task.cancel()
        for _, writer in opened:
            writer.transport.abort()


@pytest.mark.parametrize("path", [LS, "/mcp"])
@pytest.mark.parametrize("value", ["{}", "[]", "0", '""', '{"a":1}', '"\\\\"'])
async def test_a_body_of_many_values_is_refused_before_it_is_parsed(door, path, value):
    async with door() as made:
        body = f"[{','.join([value] * (MOST_VALUES + 1))}]"
        answer = await made.operator.post(path, content=body, headers={**ACCEPT, "Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large"), answer.text


async def test_one_tokens_sessions_of_mcp_leave_room_for_everybody_elses(door):
    async with door() as made:
        hostile = made.client(made.tokens.add("hostile", Role.AGENT, sessions=("agent:ops:1",)))
        other = made.client(made.tokens.add("other", Role.AGENT, sessions=("agent:main:1",)))
        kept = await other.post("/mcp", json=HELLO, headers=ACCEPT)
        # As many as are kept, and then five a second.
        begun = [await hostile.post("/mcp", json=HELLO, headers=ACCEPT) for _ in range(96)]
        assert {answer.status_code for answer in begun} == {200}
        assert (await other.post("/mcp", json=HELLO, headers=ACCEPT)).status_code == 200

        async def asked(client, first):
            held = {**ACCEPT, "Mcp-Session-Id": first.headers["mcp-session-id"]}
            return (await client.post("/mcp", json=LIST, headers=held)).status_code

        assert await asked(other, kept) == 200
        # Its own oldest went for its newest.
        assert (await asked(hostile, begun[0]), await asked(hostile, begun[-1])) == (404, 200)


class Held:
    """A connection that notes its end."""

    def __init__(self, peer, *, idle=True):
        self.peer, self.idle, self.dropped = peer, idle, False

    def drop(self):
        self.dropped = True


def test_who_has_the_most_half_open_connections_loses_its_oldest():
    counted = Connections(most_each=4)
    mine = Held(1000)
    counted.arrived(mine)
    others = [Held(65534) for _ in range(100)]
    for one in others:
        counted.arrived(one)
    assert not mine.dropped
    assert [one.dropped for one in others] == [True] * 97 + [False] * 3
    assert counted.count(STRANGERS) == 4
    counted.belongs(mine, "operator")
    assert (counted.count(STRANGERS), counted.count("operator")) == (3, 1)
    counted.left(mine)
    counted.left(mine)
    assert counted.count("operator") == 0


def test_a_principal_loses_idle_connections_and_none_that_works():
    counted = Connections(most_each=2)
    working, idle, last = Held(1, idle=False), Held(1), Held(1)
    for one in (working, idle, last):
        counted.arrived(one)
        counted.belongs(one, "bot")
    assert [one.dropped for one in (working, idle, last)] == [False, True, False]


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_says_whose_a_connection_is(family, address):
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        listener.listen()
        client = socket.create_connection(listener.getsockname()[:2])
        served, _ = listener.accept()
        with served:
            assert uid_of(served) == os.geteuid()
            client.close()
            # Nobody's any more; the kernel says 0 of it, and root must not be blamed.
            assert uid_of(served) is None


def test_the_kernel_says_the_same_of_a_socket_file():
    one, other = socket.socketpair()
    with one, other:
        assert uid_of(one) == os.geteuid()


FLOOD = f"""
import socket, sys
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range({MOST_EACH + 50})]
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_users_half_open_connections_do_not_push_out_one_of_ours(door):
    async with door() as made:
        port = int(made.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        become = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-I", "-c")
        flood = await asyncio.create_subprocess_exec(
            *become, FLOOD, str(port), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await flood.stdout.readline() == b"there\n"
                writer.write(HEALTH.replace(b"HOST", made.url.removeprefix("http://").encode()))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        finally:
            flood.stdin.close()
            await flood.wait()
            writer.close()
