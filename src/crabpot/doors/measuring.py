"""What each door adds to a call: the same command by every door of one gateway, in turn, in one run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from crabpot.bench.figures import Figure, Series
from crabpot.doors import serve, tools
from crabpot.doors.client import connect
from crabpot.doors.http.door import opened
from crabpot.doors.http.listening import address
from crabpot.doors.http.tokens import OPERATOR, Tokens
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway

    Call = Callable[[], Awaitable[Any]]

_SESSION = "agent:main:main"
_ARGS = {"command": "true"}
_PATH = f"/v1/sessions/{_SESSION}/tools/exec"


async def overheads(gateway: Gateway, times: int) -> list[Figure]:
    """Give a row for each door, beside the gateway itself. Clients are in it too: they share our processors."""
    state = gateway.execution.around.state
    config = os.path.join(state, "bench.json5")
    with open(config, "w", encoding="utf-8") as stream:
        stream.write("{}")

    async def inquire(_name: str, args: dict[str, Any]) -> Any:
        return tools.offered(gateway, str(args["session"]))

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serve.serve(gateway, state, inquire, config=config))
        path, url = await stack.enter_async_context(opened(gateway, address("127.0.0.1:0")))
        calls = await _doors(stack, state, config, (path, url))
        direct = gateway.call
        taken: dict[str, list[float]] = {name: [] for name in ("", *calls)}
        for _ in range(times + 1):
            taken[""].append(await _seconds(lambda: direct(_SESSION, "exec", _ARGS)))
            for name, call in calls.items():
                taken[name].append(await _seconds(call))
    # The first of each opens things.
    itself = Series(name="`Gateway.call`", values=tuple(taken.pop("")[1:]))
    return [
        Figure(what=f"`exec true` by {name}", ours=Series(name=name, values=tuple(values[1:])), other=itself)
        for name, values in taken.items()
    ]


async def _seconds(call: Call) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def _doors(stack: AsyncExitStack, state: str, config: str, where: tuple[str, str]) -> dict[str, Call]:
    remote = await connect(state)
    if remote is None:
        raise CrabpotError(f"nobody serves {state}")
    stack.push_async_callback(remote.close)
    path, url = where
    token = Tokens(state).rotate(OPERATOR)
    host, port = url.removeprefix("http://").split(":")
    by_socket = await _http(stack, await asyncio.open_unix_connection(path), "crabpot", "")
    by_loopback = await _http(stack, await asyncio.open_connection(host, int(port)), f"{host}:{port}", token)
    headers = {"Authorization": f"Bearer {token}"}
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
    far = await stack.enter_async_context(Client(streamable_http_client(f"{url}/mcp", http_client=http)))
    command = ["-I", "-m", "crabpot", "--state", state, "--config", config, "mcp"]
    started = StdioServerParameters(command=sys.executable, args=command)
    near = await stack.enter_async_context(Client(stdio_client(started)))
    return {
        "the command line's socket": lambda: remote.call(_SESSION, "exec", _ARGS),
        "HTTP on the Unix socket": by_socket,
        "HTTP on the loopback, with a token": by_loopback,
        "MCP as streamable HTTP": lambda: far.call_tool("exec", _ARGS),
        "MCP on standard input and output": lambda: near.call_tool("exec", _ARGS),
    }


async def _http(
    stack: AsyncExitStack, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], host: str, token: str
) -> Call:
    """Make a client that does as little as will do: the door is what is measured."""
    reader, writer = streams
    stack.callback(writer.close)
    body = json.dumps(_ARGS)
    lines = [
        f"POST {_PATH} HTTP/1.1",
        f"Host: {host}",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
    ]
    lines += [f"Authorization: Bearer {token}"] if token else []
    asked = "\r\n".join([*lines, "", body]).encode()

    async def call() -> None:
        writer.write(asked)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        if not head.startswith(b"http/1.1 200 "):
            raise CrabpotError(head.decode("latin-1"))

    return call
