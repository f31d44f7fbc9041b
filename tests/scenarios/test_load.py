"""Two hundred clients at once, honest and not, and a gateway killed in the middle: nothing lost, nobody in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from contextlib import asynccontextmanager
from typing import Any

import pytest

# With CRABPOT_LOAD=10000 as many requests; by default enough to meet every limit once.
REQUESTS = int(os.environ.get("CRABPOT_LOAD", "3000"))
CLIENTS = 200
PATIENCE_S = 240.0


class Client:
    """A connection that is kept, and as little else as will do: the load is to be the gateway's."""

    def __init__(self, port, token, host=None):
        self.port, self.token = port, token
        self.host = host or f"127.0.0.1:{port}"

    @asynccontextmanager
    async def connected(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield self
        finally:
            self.writer.close()

    async def request(self, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self.host}", f"Content-Length: {len(data)}"]
        lines += ["Content-Type: application/json"] + ([f"Authorization: Bearer {self.token}"] if self.token else [])
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))[15:])
        return int(head.split(b" ", 2)[1]), await self.reader.readexactly(size)


@pytest.fixture
def prepared(placed):
    """A gateway with ten agents' tokens."""
    made = (("tokens", "add", f"bot{n}", "--session", f"agent:bot{n}:*", "--sender", f"sender{n}") for n in range(10))
    # On the host: it is the gateway that is loaded, not what it starts.
    tokens = [placed(*arguments, "--allow-host").out.strip() for arguments in made]
    (placed.workspace / "note").write_text("crab")
    return placed, tokens


def test_two_hundred_clients_get_their_own_answers_and_strangers_get_none(prepared):
    program, tokens = prepared
    seen: Counter[Any] = Counter()

    async def honest(port, n):
        which = n % 10
        client = Client(port, tokens[which])
        async with client.connected():
            for _ in range(REQUESTS // CLIENTS):
                path = f"/v1/sessions/agent:bot{which}:{n}/tools/read"
                status, body = await client.request("POST", path, {"path": "note"})
                assert (status, json.loads(body)["data"]["content"]) == (200, "crab")
                seen["answered"] += 1

    async def dishonest(port, n):
        other = (n + 1) % 10
        attempts = [
            (Client(port, "crabpot_wrong"), "POST", f"/v1/sessions/agent:bot{other}:x/tools/read", {401, 429}),
            (Client(port, None), "GET", "/v1/audit", {401, 429}),
            (Client(port, tokens[n % 10], host="evil.example"), "GET", "/openapi.json", {421}),
            (Client(port, tokens[n % 10]), "GET", "/v1/approvals", {403}),
            (Client(port, tokens[n % 10]), "POST", f"/v1/sessions/agent:bot{other}:x/tools/read", {403}),
        ]
        for client, method, path, expected in attempts * 3:
            async with client.connected():
                status, _ = await client.request(method, path, {"path": "note"})
                assert status in expected
                seen["refused"] += 1

    async def all_at_once(port):
        async with asyncio.timeout(PATIENCE_S):
            honest_ones = (honest(port, n) for n in range(CLIENTS))
            await asyncio.gather(*honest_ones, *(dishonest(port, n) for n in range(20)))

    with program.listening(orderly=False) as (_, port):
        asyncio.run(all_at_once(port))
    assert seen["answered"] == REQUESTS // CLIENTS * CLIENTS
    assert seen["refused"] == 300
    shown = program("audit", "tail", "-n", str(2 * REQUESTS), "--json").out.splitlines()
    calls = [one for one in map(json.loads, shown) if one["kind"] == "call"]
    assert len(calls) == seen["answered"]
    assert all(one["session"].split(":")[1][3:] == one["sender"][6:] for one in calls)
    assert "the chain holds" in program("audit", "verify").out


def test_killed_under_load_it_loses_nothing_that_it_answered_and_lets_nobody_in(prepared):
    program, tokens = prepared
    answered: dict[str, str] = {}

    async def write_on(port, n, served):
        client = Client(port, tokens[n % 10])
        try:
            async with client.connected():
                for round_ in range(10_000):
                    args = {"path": f"f{n}-{round_}", "content": "x"}
                    status, body = await client.request("POST", f"/v1/sessions/agent:bot{n % 10}:{n}/tools/write", args)
                    assert status == 200
                    answered[json.loads(body)["id"]] = args["path"]
                    if len(answered) == 500:
                        served.send_signal(signal.SIGKILL)
        except (ConnectionError, asyncio.IncompleteReadError):
            return

    async def all_at_once(port, served):
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(write_on(port, n, served) for n in range(50)))

    with program.listening(orderly=False) as (served, port):
        asyncio.run(all_at_once(port, served))
    assert len(answered) >= 500
    assert set(answered.values()) <= set(os.listdir(program.workspace))
    shown = program("audit", "tail", "-n", "100000", "--json").out.splitlines()
    assert set(answered) <= {one.get("call") for one in map(json.loads, shown)}
    assert "the chain holds" in program("audit", "verify").out
    with program.listening(orderly=False) as (_, port):

        async def afterwards():
            good, bad = Client(port, tokens[0]), Client(port, "crabpot_wrong")
            async with good.connected(), bad.connected():
                path = "/v1/sessions/agent:bot0:1/tools/ls"
                return (await good.request("POST", path, {}))[0], (await bad.request("POST", path, {}))[0]

        assert asyncio.run(afterwards()) == (200, 401)
