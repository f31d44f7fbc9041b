"""A program to count in what a `read` costs by each door, on the loop's thread: STATE CALLS; prints JSON.

The clients have a thread of their own, so that nothing of theirs is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from http.client import HTTPConnection
from statistics import median_low
from typing import TYPE_CHECKING, Any

from crabpot import app
from crabpot.doors.http import door
from crabpot.doors.mcp.server import Caller
from crabpot.doors.mcp.stdio import talk
from crabpot.scheduling.fair_loop import FairLoop
from tests.cost.counted_gateway import CALLS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import FrameType

    from crabpot.gateway import Gateway

SESSION = "agent:main:0"
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}}
_ACCEPT = "application/json, text/event-stream"


class Count:
    """Counts the bytecode instructions of this thread."""

    instructions = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count one, as `sys.settrace` tells it."""
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.instructions += event == "opcode"
        return self.trace

    async def of(self, call: Callable[[], Awaitable[None]]) -> int:
        """Count what one call takes."""
        self.instructions = 0
        sys.settrace(self.trace)
        try:
            await call()
        finally:
            sys.settrace(None)
        return self.instructions


class Http:
    """One persistent connection to the Unix socket, and what is sent on it."""

    def __init__(self, path: str) -> None:
        self._connection = HTTPConnection("crabpot", timeout=60)
        self._connection.sock = socket.socket(socket.AF_UNIX)
        self._connection.sock.connect(path)

    def post(self, path: str, body: Any, **headers: str) -> tuple[dict[str, str], bytes]:
        """Send a request, and return the headers and the body of the answer."""
        given = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        # As bytes: the head and the body go out together.
        self._connection.request("POST", path, json.dumps(body).encode(), given)
        answer = self._connection.getresponse()
        said = answer.read()
        assert answer.status < 300, said
        return {name.lower(): value for name, value in answer.getheaders()}, said


async def by_http(http: Http) -> Callable[[], Awaitable[None]]:
    """Return a call by plain HTTP."""

    def call() -> None:
        assert json.loads(http.post(f"/v1/sessions/{SESSION}/tools/read", CALLS["read"])[1])["success"]

    return lambda: asyncio.to_thread(call)


async def by_mcp_over_http(http: Http) -> Callable[[], Awaitable[None]]:
    """Return a call in an MCP session over HTTP."""
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO}
    headers, _ = await asyncio.to_thread(http.post, "/mcp", hello, Accept=_ACCEPT, Crabpot_Session=SESSION)
    within = {"Accept": _ACCEPT, "Crabpot_Session": SESSION, "Mcp_Session_Id": headers["mcp-session-id"]}
    within["Mcp_Protocol_Version"] = _HELLO["protocolVersion"]  # type: ignore[assignment]
    await asyncio.to_thread(http.post, "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **within)

    def call() -> None:
        _, said = http.post("/mcp", _request(1), **within)
        assert b'"isError":false' in said, said

    return lambda: asyncio.to_thread(call)


class Stdio:
    """An MCP client on the loop itself: lines in, lines out, and no process between them."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._said: asyncio.Queue[str] = asyncio.Queue()

    async def incoming(self) -> AsyncIterator[bytes]:
        """Yield what the client sends."""
        while line := await self._lines.get():
            yield line

    async def write(self, text: str) -> None:
        """Take what the server says."""
        self._said.put_nowait(text)

    async def flush(self) -> None:
        """Do nothing."""

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        self._lines.put_nowait(json.dumps(message).encode() + b"\n")

    def end(self) -> None:
        """Send no more."""
        self._lines.put_nowait(b"")

    async def greet(self) -> None:
        """Begin the session."""
        self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
        await self._said.get()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self) -> None:
        """Make one call."""
        self.send(_request(1))
        assert '"isError":false' in await self._said.get()


def _request(number: int) -> dict[str, Any]:
    params = {"name": "read", "arguments": CALLS["read"]}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def count_all(gateway: Gateway, state: str, calls: int) -> dict[str, int]:
    """Count by each door what most of so many calls take: one may leave some of its work to the next."""
    written = await gateway.call(SESSION, "write", CALLS["write"])
    assert written.success, written
    stdio = Stdio()
    talking = asyncio.create_task(talk(gateway, Caller(session=SESSION), stdio.incoming(), stdio))
    await stdio.greet()
    async with door.opened(gateway, None):
        path = os.path.join(state, "http.sock")
        ways = {"http": await by_http(Http(path)), "mcp-http": await by_mcp_over_http(Http(path)), "mcp": stdio.call}
        count = Count()
        # The first ones find what is then known.
        found = {name: [await count.of(call) for _ in range(3 + calls)][3:] for name, call in ways.items()}
    stdio.end()
    await talking
    return {name: median_low(costs) for name, costs in found.items()}


async def main(state: str, calls: int) -> None:
    """Count, and end every sandbox."""
    gateway = app.start(config=None, state=state, environ=os.environ).gateway("{}")
    try:
        print(json.dumps(await count_all(gateway, state, calls)))
    finally:
        await gateway.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=FairLoop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2])))
