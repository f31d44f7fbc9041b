"""Promises about connections: listed places are reached through the gateway, as many at a time as programs open."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, same, true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter(sandbox_only=True)

# Python's own client, which every sandbox has: it finds the proxy by the environment, as curl and pip do.
_FETCH = "python3 -c 'import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())'"
_MANY = """
import socket, sys
made = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(200)]
for one in made:
    one.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\n\\r\\n" % int(sys.argv[1]))
for one in made:
    assert one.recv(12) == b"HTTP/1.1 200"
for one in made:
    one.sendall(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % int(sys.argv[1]))
for one in made:
    got = b""
    while piece := one.recv(4096):
        got += piece
    assert got.endswith(b"the page"), got
print("all")
"""


class _Page:
    def __init__(self) -> None:
        self.asked = 0
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nthe page")
            await writer.drain()
        writer.close()


@asynccontextmanager
async def _page() -> AsyncIterator[_Page]:
    page = _Page()
    server = await asyncio.start_server(page.answer, "127.0.0.1", 0, backlog=512)
    page.port = server.sockets[0].getsockname()[1]
    try:
        yield page
    finally:
        server.close()


@promise
async def a_listed_place_is_reached_without_settings_and_no_other(harness: Harness) -> None:
    async with _page() as page, _page() as other, harness.open(network={"allow": [f"127.0.0.1:{page.port}"]}) as box:
        same("the page", await box.out(f"{_FETCH} http://127.0.0.1:{page.port}/"), "the page")
        refused = await box.run(f"{_FETCH} http://127.0.0.1:{other.port}/")
        same("another port", refused.success, False)
        true("the hint names the setting", "agents.defaults.sandbox.network.allow" in refused.stderr)
        same("requests", (page.asked, other.asked), (1, 0))


@promise
async def two_hundred_connections_at_once_are_each_answered(harness: Harness) -> None:
    async with _page() as page, harness.open(network={"allow": [f"127.0.0.1:{page.port}"]}) as box:
        await box.call("write", path="many.py", content=_MANY)
        same("two hundred", await box.out(f"python3 many.py {page.port}", timeout=50), "all\n")
        same("requests", page.asked, 200)


@promise
async def an_empty_list_and_the_internet_reach_nothing_of_the_hosts(harness: Harness) -> None:
    async with _page() as page:
        networks: tuple[str | dict[str, list[str]], ...] = ({"allow": []}, "internet")
        for network in networks:
            async with harness.open(network=network) as box:
                refused = await box.run(f"no_proxy= NO_PROXY= {_FETCH} http://127.0.0.1:{page.port}/")
                same(f"with {network}", refused.success, False)
                true("the hint says why", "was refused" in refused.stderr)
        same("requests", page.asked, 0)
