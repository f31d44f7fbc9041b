"""Measure an MCP server in its sandbox beside the bare one: from nothing to its first answer, and each call after."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from bench.contest import Entrant, contest, one_by_one
from bench.entrants import SESSION, calling, seconds
from bench.figures import Comparison
from crabpot.errors import CrabpotError
from crabpot.servers.approving import candidate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crabpot.gateway import Gateway

# Made with the official SDK, as most servers are; the client beside it is the SDK's own too.
_CODE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bench")
@server.tool()
def echo(text: str) -> str:
    return text
server.run("stdio")
"""
_COMMAND = [sys.executable, "-c", _CODE]
_SAID = {"text": "hello"}


async def servers(open_gateway: Callable[[str], Gateway], rounds: int) -> list[Comparison]:
    """Measure both."""
    gateway = open_gateway(json.dumps({"mcp": {"servers": {"it": {"command": _COMMAND}}}}))
    if gateway.servers is None:
        raise CrabpotError("the measured gateway has no servers")
    (await candidate(gateway.servers, "it")).keep(by="bench")
    starts = [
        Entrant(name="bare server", block=one_by_one(_bare_start)),
        Entrant(name="in a sandbox", block=one_by_one(lambda: _start(gateway))),
    ]
    started = await contest(starts, max(4, rounds // 4))
    async with _bare() as session:
        calls = [
            Entrant(name="bare server", block=one_by_one(lambda: _bare_call(session))),
            calling(gateway, "in a sandbox", "it__echo", _SAID),
        ]
        called = await contest(calls, rounds)
    return [
        Comparison(
            id="server-start",
            what="An MCP server, from nothing to its first answer",
            limit="bare server",
            series=started,
        ),
        Comparison(id="server-call", what="A call of an MCP server's tool", limit="bare server", series=called),
    ]


@asynccontextmanager
async def _bare() -> AsyncIterator[ClientSession]:
    started = StdioServerParameters(command=_COMMAND[0], args=_COMMAND[1:], env=dict(os.environ))
    async with stdio_client(started) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


async def _bare_call(session: ClientSession) -> float:
    began = time.perf_counter()
    result = await session.call_tool("echo", _SAID)
    if result.is_error:
        raise CrabpotError("a measured call failed")
    return time.perf_counter() - began


async def _bare_start() -> float:
    began = time.perf_counter()
    async with _bare() as session:
        await session.list_tools()
        await _bare_call(session)
        # Not its end: neither side waits for that.
        return time.perf_counter() - began


async def _start(gateway: Gateway) -> float:
    took = await seconds(gateway.call(SESSION, "it__echo", _SAID))
    if gateway.servers is not None:
        await gateway.servers.restart("it")
    return took
