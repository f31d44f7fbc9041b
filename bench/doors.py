"""Every door into one serving gateway, beside the gateway called directly: what each door costs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from bench.contest import Entrant, contest, one_by_one
from bench.entrants import SESSION, SMALL, calling, seconds
from bench.figures import Comparison
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

    # Calls a serving gateway: session, tool, arguments.
    Remote = Callable[[str, str, dict[str, Any]], Awaitable[ToolResult]]
    # Connects to the gateway that serves a state folder.
    Reach = Callable[[str, AsyncExitStack], Awaitable[Remote]]

DIRECT = "Gateway.call (the Python door)"

_START_S = 30.0
_NOTE = "No door waits for the disk here: records are written meanwhile. What touches the host waits for its record."
_HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "crabpot bench", "version": "1"},
}
_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("exec true", "exec", {"command": "true"}),
    ("read of 4 KiB", "read", {"path": "small.txt"}),
)


async def doors(gateway: Gateway, state: str, reach: Reach, rounds: int) -> list[Comparison]:
    """Serve in another process, and call through every door, and through none."""
    program = [sys.executable, "-I", "-m", "crabpot", "--state", state]
    made = []
    async with AsyncExitStack() as stack:
        port = _serving(stack, program, state)
        remote = await reach(state, stack)
        unix = os.path.join(state, "http.sock")
        ways: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "HTTP, Unix socket": _Http(stack, unix).call,
            "HTTP, loopback and token": _Http(stack, port, _token(state)).call,
            "MCP over HTTP": _McpHttp(stack, unix).call,
            "MCP over standard input and output": _McpStdio(stack, program).call,
        }
        for target in (gateway.call, remote):
            result = await target(SESSION, "write", {"path": "small.txt", "content": SMALL})
            if not result.success:
                raise CrabpotError(f"a measured call failed: {result.error}")
        for what, tool, args in _CALLS:
            entrants = [
                calling(gateway, DIRECT, tool, args),
                Entrant(
                    name="socket of crabpot serve",
                    block=one_by_one(lambda tool=tool, args=args: seconds(remote(SESSION, tool, args))),  # type: ignore[misc]
                ),
                *(Entrant(name=name, block=one_by_one(_timed(call, tool, args))) for name, call in ways.items()),
            ]
            series = await contest(entrants, rounds)
            made.append(
                Comparison(id=f"doors-{tool}", what=f"`{what}` by every door", note=_NOTE, limit=DIRECT, series=series)
            )
    return made


def _timed(
    call: Callable[[str, dict[str, Any]], None], tool: str, args: dict[str, Any]
) -> Callable[[], Awaitable[float]]:
    async def once() -> float:
        began = time.perf_counter()
        # Nothing else may run in this process meanwhile.
        call(tool, args)
        return time.perf_counter() - began

    return once


def _token(state: str) -> str:
    with open(os.path.join(state, "http.token"), encoding="ascii") as stream:
        return stream.read().strip()


def _serving(stack: AsyncExitStack, program: list[str], state: str) -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    serving = subprocess.Popen(
        [*program, "serve", "--listen", f"127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(_end, serving)
    deadline = time.monotonic() + _START_S
    while not os.path.exists(os.path.join(state, "http.sock")):
        if serving.poll() is not None or time.monotonic() > deadline:
            raise CrabpotError("`crabpot serve` did not begin to serve")
        time.sleep(0.02)
    return port


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Http:
    """The plain HTTP door, over its Unix socket or the loopback, by one persistent connection."""

    def __init__(self, stack: AsyncExitStack, where: str | int, token: str = "") -> None:
        self._headers = {"Content-Type": "application/json"}
        if isinstance(where, str):
            self._connection = HTTPConnection("crabpot", timeout=30)
            self._connection.sock = socket.socket(socket.AF_UNIX)
            self._connection.sock.connect(where)
        else:
            self._connection = HTTPConnection("127.0.0.1", where, timeout=30)
            self._headers["Authorization"] = f"Bearer {token}"
        stack.callback(self._connection.close)

    def call(self, tool: str, args: dict[str, Any]) -> None:
        _, body = self.post(f"/v1/sessions/{SESSION}/tools/{tool}", args)
        if not json.loads(body)["success"]:
            raise CrabpotError(f"a measured call failed: {body[:200]!r}")

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[dict[str, str], bytes]:
        given = {**self._headers, **(headers or {})}
        self._connection.request("POST", path, json.dumps(body), given)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 300:  # noqa: PLR2004
            raise CrabpotError(f"{path} answered {answer.status}: {said[:200]!r}")
        return {name.lower(): value for name, value in answer.getheaders()}, said


class _McpHttp:
    """MCP's streamable HTTP, in one session of the protocol."""

    def __init__(self, stack: AsyncExitStack, path: str) -> None:
        self._http = _Http(stack, path)
        self._count = 1
        self._headers = {"Accept": "application/json, text/event-stream", "Crabpot-Session": SESSION}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO}
        headers, _ = self._http.post("/mcp", hello, self._headers)
        self._headers |= {"Mcp-Session-Id": headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-11-25"}
        self._http.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, self._headers)

    def call(self, tool: str, args: dict[str, Any]) -> None:
        self._count += 1
        _, body = self._http.post("/mcp", _request(self._count, tool, args), self._headers)
        lines = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        _check(json.loads(lines[-1] if lines else body))


class _McpStdio:
    """MCP on standard input and output: a process of its own, before the same gateway."""

    def __init__(self, stack: AsyncExitStack, program: list[str]) -> None:
        argv = [*program, "mcp", "--session", SESSION]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        stack.callback(_end, self._process)
        self._count = 1
        self._send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
        self._receive()
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, args: dict[str, Any]) -> None:
        self._count += 1
        self._send(_request(self._count, tool, args))
        _check(self._receive())

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        return message


def _request(number: int, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": args}}


def _check(message: dict[str, Any]) -> None:
    if message.get("result", {}).get("isError", True):
        raise CrabpotError(f"a measured call failed: {str(message)[:200]}")
