"""One who takes all it can get at the E2B door takes nothing from anybody else, as at the other doors."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from crabpot.doors.e2b import sandboxes
from crabpot.doors.http.access.limits import Limits
from crabpot.doors.http.access.principals import Role
from tests.support.e2b import START

PATIENCE_S = 30.0
MANY = 600
BYTES, JSON = "application/octet-stream", "application/json"
BODIES = [
    ("/v2/sandboxes", JSON),
    (START, "application/connect+json"),
    ("/filesystem.Filesystem/Stat", JSON),
    ("/execute", JSON),
    ("/files?path=slow", BYTES),
    ("/process.Process/StreamInput", "application/connect+json"),
]


def head(api, box, path, kind, size):
    """Return the begin of a request that promises a body."""
    lines = {"Host": api.url.removeprefix("http://"), "X-API-Key": api.key, **box.headers}
    lines |= {"Content-Type": kind, "Content-Length": str(size)}
    return "\r\n".join([f"POST {path} HTTP/1.1", *(f"{key}: {value}" for key, value in lines.items()), "", ""]).encode()


@asynccontextmanager
async def connections(api, count):
    opened: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    try:
        while len(opened) < count:
            opened += [await asyncio.open_connection("127.0.0.1", int(api.url.rpartition(":")[2]))]
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


@pytest.mark.parametrize(("path", "kind"), BODIES)
async def test_a_body_that_never_comes_ends_its_request(api, path, kind):
    async with api(limits=Limits(request_s=1.0)) as door:
        box = await door.create()
        async with connections(door, 1) as [(reader, writer)], asyncio.timeout(PATIENCE_S):
            writer.write(head(door, box, path, kind, 1000) + b"{")
            answer = await reader.read()
            # A streamed answer has its error at its end.
            assert answer.startswith(b"HTTP/1.1 408 ") or b"deadline_exceeded" in answer, answer
        found = await box.rpc("/filesystem.Filesystem/Stat", path="slow")
        assert found.json()["code"] == "not_found"


async def test_half_open_connections_do_not_close_the_door(api):
    async with api() as door, connections(door, MANY) as opened:
        for _, writer in opened:
            writer.write(b"P")
        assert (await (await door.create()).run("/bin/true"))[-1] == {}


@pytest.mark.parametrize("path", ["/v2/sandboxes", START])
async def test_bodies_that_never_end_take_one_keys_memory_and_no_more(api, path):
    async with api() as door:
        box, size = await door.create(), 16 * 2**20
        begin = head(door, box, path, dict(BODIES)[path], size)
        async with connections(door, 5) as opened:
            for _, writer in opened:
                writer.write(begin + b'"' + b"x" * (size - 2))
            reading = {asyncio.create_task(reader.readuntil(b"}")) for reader, _ in opened}
            done, waiting = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            answer = next(task.result() for task in done)
            assert answer.startswith(b"HTTP/1.1 429 ") or b"resource_exhausted" in answer, answer
            other = door.made.tokens.add("other", Role.AGENT, sessions=("agent:main:other:*",))
            assert (await door.keyed(other).get("/v2/sandboxes")).status_code == 200
            for task in waiting:
                task.cancel()


async def test_one_keys_sandboxes_are_its_own_to_run_out_of(api, monkeypatch):
    monkeypatch.setattr(sandboxes, "MOST_EACH", 2)
    async with api() as door:
        boxes = [await door.create() for _ in range(2)]
        refused = await door.client.post("/v2/sandboxes", json={"templateID": "base"})
        assert (refused.status_code, refused.json()["code"]) == (429, 429)
        other = door.keyed(door.made.tokens.add("other", Role.AGENT, sessions=("agent:main:other:*",)))
        assert (await other.post("/v2/sandboxes", json={"templateID": "base"})).status_code == 201
        await door.client.delete(f"/v2/sandboxes/{boxes[0].id}")
        await door.create()


async def test_the_gateways_own_limit_on_sandboxes_holds_here_too(api):
    async with api("{gateway: {maxSandboxesPerAgent: 1}}") as door:
        box = await door.create()
        running = asyncio.create_task(box.run("/bin/sleep", "1000"))
        while not (await box.rpc("/process.Process/List")).json()["processes"]:
            await asyncio.sleep(0.05)
        refused = await door.client.post("/v2/sandboxes", json={"templateID": "base"})
        assert refused.status_code in (429, 503), refused.text
        assert [one["sandboxID"] for one in (await door.client.get("/v2/sandboxes")).json()] == [box.id]
        running.cancel()
