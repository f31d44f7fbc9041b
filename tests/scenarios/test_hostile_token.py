"""One token uses everything that it is given at the doors, at once; another token and the dashboard go on."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import httpx

FEW = """{ gateway: { maxSandboxes: 20, maxSandboxesPerAgent: 4 } }"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}
# More than the door had for everybody together when this was an attack that worked.
HALF_OPEN = 600
SLOW = 100
# Generous: the machine is busy with the attack itself.
PATIENCE_S = 240.0
TIMEOUT_S = 60.0


class Hostile:
    """Whoever has one agent's token, and every way to waste what it opens."""

    def __init__(self, port, token):
        self.port, self.host = port, f"127.0.0.1:{port}"
        self.head = f"Host: {self.host}\r\nAuthorization: Bearer {token}\r\n"
        self.held = []
        self.done = dict.fromkeys(("initialized", "sessions", "refused", "half_open", "slow", "unread"), 0)
        self.client = httpx.AsyncClient(
            base_url=f"http://{self.host}", headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S
        )

    async def raw(self, text):
        sock = socket.socket()
        self.held.append(sock)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", self.port))
        await loop.sock_sendall(sock, text.encode())

    async def initialize(self):
        while True:
            answer = await self.client.post("/mcp", json=HELLO, headers=ACCEPT)
            self.done["initialized"] += answer.status_code == 200

    async def half_open(self):
        """Say nothing, say who it is and then a byte of the next request, and never hang up."""
        for number in count():
            whole = f"GET /v1/sessions/agent:ops:x/tools HTTP/1.1\r\n{self.head}\r\n" if number % 2 else ""
            await self.raw(f"{whole}G")
            self.done["half_open"] += 1
            if len(self.held) > 2 * HALF_OPEN:
                self.held.pop(0).close()
                await asyncio.sleep(0.01)

    async def many_sessions(self, background):
        for number in count():
            path = f"/v1/sessions/agent:ops:{number}/tools/exec"
            answer = await self.client.post(
                path, json={"command": "sleep 1000", "background": background, "timeout": 2}
            )
            self.done["sessions" if answer.status_code == 200 else "refused"] += 1

    async def slow(self):
        """Promise a body that never comes, to every kind of door."""
        for number in range(SLOW):
            path = ("POST /mcp", "POST /v1/sessions/agent:ops:s/tools/exec", "PUT /v1/sessions/agent:ops:s/files/x")[
                number % 3
            ]
            lines = "Content-Type: application/json\r\nContent-Length: 1000000\r\n"
            await self.raw(f"{path} HTTP/1.1\r\n{self.head}{lines}\r\n{{")
            self.done["slow"] += 1
        await asyncio.Event().wait()

    async def unread(self):
        """Ask for endless output and read none of it."""
        for _ in range(4):
            body = json.dumps({"command": "yes", "timeout": 600})
            lines = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            path = "POST /v1/sessions/agent:ops:0/tools/exec?stream=1"
            await self.raw(f"{path} HTTP/1.1\r\n{self.head}{lines}\r\n{body}")
            self.done["unread"] += 1
        await asyncio.Event().wait()

    async def _again(self, attack):
        """Being cut off stops nobody who means it."""
        while True:
            with suppress(httpx.HTTPError, OSError):
                await attack()
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def at_work(self):
        attacks = [self.initialize] * 4 + [self.half_open, self.slow, self.unread]
        attacks += [lambda: self.many_sessions(False), lambda: self.many_sessions(True)]
        tasks = [asyncio.create_task(self._again(attack)) for attack in attacks]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.client.aclose()
            for sock in self.held:
                sock.close()


def test_one_hostile_token_takes_nothing_from_another_nor_from_the_dashboard(crabpot):
    crabpot.configure(FEW)
    hostile = crabpot("tokens", "add", "hostile", "--session", "agent:ops:*").out.strip()
    honest = crabpot("tokens", "add", "honest", "--session", "agent:main:*").out.strip()

    async def first_event(operator):
        async with operator.stream("GET", "/v1/events") as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    return
        raise AssertionError("the feed ended before its first event")

    async def others(port):
        url = f"http://127.0.0.1:{port}"
        token = (crabpot.state / "http.token").read_text().strip()
        bearing: dict[str, Any] = {"headers": {"Authorization": f"Bearer {honest}"}, "timeout": TIMEOUT_S}
        operating: dict[str, Any] = {"headers": {"Authorization": f"Bearer {token}"}, "timeout": TIMEOUT_S}
        for turn in range(10):
            # A new connection each time: it is the coming in that was closed.
            async with httpx.AsyncClient(base_url=url, **bearing) as client:
                path = f"/v1/sessions/agent:main:{turn % 2}/tools/exec"
                ran = await client.post(path, json={"command": f"echo {turn}"})
                assert (ran.status_code, ran.json()["stdout"]) == (200, f"{turn}\n"), ran.text
                assert (await client.post("/mcp", json=HELLO, headers=ACCEPT)).status_code == 200
            async with httpx.AsyncClient(base_url=url, **operating) as client:
                for path in ("/", "/v1/approvals", "/v1/sandboxes", "/v1/audit?limit=10", "/metrics"):
                    assert (await client.get(path)).status_code == 200, path
                await first_event(client)

    async def all_at_once(port):
        attacker = Hostile(port, hostile)
        async with asyncio.timeout(PATIENCE_S), attacker.at_work():
            while not all(attacker.done[one] for one in ("initialized", "refused", "unread")) or (
                attacker.done["half_open"] < HALF_OPEN or attacker.done["slow"] < SLOW
            ):
                await asyncio.sleep(0.05)
            await others(port)
        return attacker.done

    with crabpot.listening(orderly=False) as (_, port):
        done = asyncio.run(all_at_once(port))
        live = [one for one in crabpot("sandboxes", "list", "--json").json if one["state"] == "live"]
    assert sum(one["scope_key"].startswith("agent:ops:") for one in live) <= 4
    assert done["initialized"] > 0
