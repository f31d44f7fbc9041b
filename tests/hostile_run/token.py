"""What whoever has one agent's token does with it at the doors, all at once, until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

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
TIMEOUT_S = 60.0
_LARGE = 15 * 1024**2
_AT_ONCE = 8


class HostileToken:
    """Whoever has one agent's token, and every way to waste what it opens."""

    def __init__(self, port: int, token: str, agent: str = "ops") -> None:
        self.port, self.host, self.of = port, f"127.0.0.1:{port}", f"/v1/sessions/agent:{agent}:"
        self.head = f"Host: {self.host}\r\nAuthorization: Bearer {token}\r\n"
        self.held: list[socket.socket] = []
        deeds = ("initialized", "sessions", "refused", "half_open", "slow", "unread", "unended", "invented", "nested")
        self.done = dict.fromkeys(deeds, 0)
        self.client = httpx.AsyncClient(
            base_url=f"http://{self.host}", headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_S
        )

    async def raw(self, text: str) -> socket.socket:
        """Send this on a connection of its own, and never hang up."""
        sock = socket.socket()
        self.held.append(sock)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", self.port))
        await loop.sock_sendall(sock, text.encode())
        return sock

    def _request(self, what: str, size: int) -> str:
        lines = f"Content-Type: application/json\r\nContent-Length: {size}\r\n"
        return f"{what} HTTP/1.1\r\n{self.head}{lines}\r\n"

    async def initialize(self) -> None:
        """Begin session after session of MCP."""
        while True:
            answer = await self.client.post("/mcp", json=HELLO, headers=ACCEPT)
            self.done["initialized"] += answer.status_code == 200

    async def half_open(self) -> None:
        """Say nothing, say who it is and then a byte of the next request, and never hang up."""
        for number in count():
            whole = f"GET {self.of}x/tools HTTP/1.1\r\n{self.head}\r\n" if number % 2 else ""
            await self.raw(f"{whole}G")
            self.done["half_open"] += 1
            if len(self.held) > 2 * HALF_OPEN:
                self.held.pop(0).close()
                await asyncio.sleep(0.01)

    async def many_sessions(self, *, background: bool) -> None:
        """Invent sessions, and keep something running in each."""
        for number in count():
            args = {"command": "sleep 1000", "background": background, "timeout": 2}
            answer = await self.client.post(f"{self.of}{number}/tools/exec", json=args)
            self.done["sessions" if answer.status_code == 200 else "refused"] += 1

    async def slow(self) -> None:
        """Promise a body that never comes, to every kind of door."""
        for number in range(SLOW):
            what = ("POST /mcp", f"POST {self.of}s/tools/exec", f"PUT {self.of}s/files/x")[number % 3]
            await self.raw(self._request(what, 1000000) + "{")
            self.done["slow"] += 1
        await asyncio.Event().wait()

    async def unread(self) -> None:
        """Ask for endless output and read none of it."""
        for _ in range(4):
            body = json.dumps({"command": "yes", "timeout": 600})
            await self.raw(self._request(f"POST {self.of}0/tools/exec?stream=1", len(body)) + body)
            self.done["unread"] += 1
        await asyncio.Event().wait()

    async def unended(self) -> None:
        """Send large bodies but for their last byte."""
        while True:
            sock = await self.raw(self._request(f"POST {self.of}0/tools/write", _LARGE) + '{"content":"')
            self.done["unended"] += 1
            with suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(sock, b"x" * (_LARGE - 16))

    async def invented(self) -> None:
        """Call tools by names of megabytes, in sessions of kilobytes."""
        for number in count():
            params = {"name": f"{number}" + "x" * 10**6, "arguments": {}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            headers = {**ACCEPT, "Crabpot-Session": self.of.rpartition("/")[2] + f"{number}" + "x" * 4000}
            await self.client.post("/mcp", json=call, headers=headers)
            self.done["invented"] += 1

    async def nested(self) -> None:
        """Send bodies that are nothing but small values."""
        body = b'{"command":[' + b"{}," * (_LARGE // 3) + b"{}]}"
        while True:
            with suppress(httpx.HTTPError):
                await self.client.post(
                    f"{self.of}0/tools/exec", content=body, headers={"Content-Type": "application/json"}
                )
            self.done["nested"] += 1

    async def _again(self, attack: Callable[[], Awaitable[None]]) -> None:
        """Being cut off stops nobody who means it."""
        while True:
            with suppress(httpx.HTTPError, OSError):
                await attack()
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Do all of it for as long as a block lasts."""
        attacks: list[Any] = [self.initialize] * 4 + [self.half_open, self.slow, self.unread, self.invented]
        attacks += [self.unended] * _AT_ONCE + [self.nested]
        attacks += [lambda: self.many_sessions(background=False), lambda: self.many_sessions(background=True)]
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
