"""What the honest agent and the operator do meanwhile: calls, a listed host, approvals, and the dashboard."""

from __future__ import annotations

import asyncio
import http.client
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
    port: int
    token: str
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
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=_LONGEST_EVENT)
        # 1.0: its lines come as they are, and not in chunks.
        head = f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        writer.write(f"GET /v1/events HTTP/1.0\r\n{head}\r\n".encode())
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
        return await asyncio.to_thread(self._requested, method, path, body)

    def _requested(self, method: str, path: str, body: Any) -> bytes:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_S)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            link.request(method, path, None if body is None else json.dumps(body), headers)
            answer = link.getresponse()
            said = answer.read()
            assert answer.status in (200, 404, 409), (answer.status, said)
            return said
        finally:
            link.close()
