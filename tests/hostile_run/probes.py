"""What the honest agent and the operator do meanwhile: calls, a listed host, approvals, and the dashboard."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.hostile_run.agent import AGENT, TOKENS_AGENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.local.client import RemoteGateway

HONEST = "agent:honest:main"
HOST = "listed.example"
_FETCH = f"curl -sS -m 60 -p http://{HOST}:%d/"
_PATIENCE_S = 60.0
# An event of the dashboard's stream: up to 500 records of the log in one line.
_LONGEST_EVENT = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Probes:
    """One honest agent by its client, and one operator by a token."""

    client: RemoteGateway
    browser: Browser
    _shown: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def call(self) -> None:
        """Run a command."""
        result = await self.client.call(HONEST, "exec", {"command": ":"})
        assert result.success, result

    async def reach(self, port: int) -> None:
        """Reach a listed host by its name."""
        result = await self.client.call(HONEST, "exec", {"command": _FETCH % port})
        assert result.stdout == "hello", result

    async def ask(self) -> None:
        """Run a command on the host: the page shows the request, and the operator allows it at once."""
        asking = asyncio.create_task(self.client.call("agent:honest:asks", "exec", {"command": "uname -s"}))
        await self._request("POST", f"/v1/approvals/{await self._shown.get()}", {"allowed": True})
        assert (await asking).stdout == "Linux\n", asking.result()

    async def page(self) -> None:
        """Load what the dashboard shows."""
        for path in ("/v1/approvals", "/v1/sandboxes", "/v1/audit?limit=20"):
            await self._request("GET", path)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Keep the dashboard's stream of events open for as long as a block lasts."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.browser.port, limit=_LONGEST_EVENT)
        # 1.0: its lines come as they are, and not in chunks.
        writer.write(f"GET /v1/events HTTP/1.0\r\n{self.browser.head}\r\n".encode())
        assert b" 200 " in await reader.readline()
        task = asyncio.create_task(self._hear(reader))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        known: set[str] = set()
        event = b""
        while line := await reader.readline():
            if line.startswith(b"event: "):
                event = line.removeprefix(b"event: ").strip()
            elif line.startswith(b"data: ") and event == b"approvals":
                listed = json.loads(line.removeprefix(b"data: "))["requests"]
                honest = {one["id"] for one in listed if one["agent"] == "honest"}
                for new in honest - known:
                    self._shown.put_nowait(new)
                known = honest

    async def clear(self) -> None:
        """Stop whatever the hostile ones left running."""
        for one in json.loads(await self._request("GET", "/v1/sandboxes"))["sandboxes"]:
            if one["agent"] in (AGENT, TOKENS_AGENT) and one["state"] == "live":
                await self._request("POST", f"/v1/sandboxes/{one['name']}/stop")

    async def _request(self, method: str, path: str, body: Any = None) -> bytes:
        async with asyncio.timeout(_PATIENCE_S):
            status, said = await self.browser.request(method, path, body)
        assert status in (200, 404, 409), (status, said)
        return said


@dataclass(slots=True)
class Browser:
    """Connections that stay open between requests, as a browser's do, and no thread that would have to be woken."""

    port: int
    token: str
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    @property
    def head(self) -> str:
        """The headers of every request."""
        return f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self.port)
        sent = b"" if body is None else json.dumps(body).encode()
        lines = f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\n{self.head}{lines}\r\n".encode() + sent)
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        sizes = [int(one.split(":")[1]) for one in fields if one.lower().startswith("content-length:")]
        said = await reader.readexactly(sizes[0])
        self._idle.append((reader, writer))
        return int(status.split()[1]), said
