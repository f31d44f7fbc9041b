"""The figures that are not contests of calls: large files, and whole commands."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from bench.contest import Entrant, contest, one_by_one, spawning
from bench.entrants import SESSION, seconds
from bench.figures import Comparison, Figure, Series
from crabpot.errors import CrabpotError
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.contest import Block
    from crabpot.gateway import Gateway

_MIB = 1024**2


async def large_file(gateway: Gateway, size: int, rounds: int) -> list[Figure]:
    """Measure a large file in and out, as throughput, beside `cat` through a pipe."""
    inward, outward, pipes = [], [], []
    chunk = os.urandom(_MIB)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size // _MIB):
            yield chunk

    async def drop(_stream: str, _data: bytes) -> None:
        return

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large")
        with open(path, "wb") as stream:
            stream.writelines(chunk for _ in range(size // _MIB))
        for _ in range(rounds):
            args = {"path": "large"}
            into = gateway.call(SESSION, "write", args, streams=Streams(source=pieces()))
            inward.append(size / _MIB / await seconds(into))
            args = {"path": "large", "encoding": "base64"}
            out = gateway.call(SESSION, "read", args, streams=Streams(sink=drop))
            outward.append(size / _MIB / await seconds(out))
            pipes.append(size / _MIB / _cat_seconds(path))
    other = Series(name="`cat` through a pipe", values=tuple(pipes), unit="MB/s")
    return [
        Figure(
            what=f"{size // _MIB} MB file {way}",
            ours=Series(name=way, values=tuple(values), unit="MB/s"),
            other=other,
            at_least=0.8,
        )
        for way, values in (("in", inward), ("out", outward))
    ]


def _cat_seconds(path: str) -> float:
    began = time.perf_counter()
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while process.stdout.read(256 * 1024):
            pass
    return time.perf_counter() - began


def listing(argv: list[str]) -> Block:
    """Return a block that starts an MCP server on standard input and output, and asks it for its tools."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    asked = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )

    def once() -> float:
        began = time.perf_counter()
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as served:
            assert served.stdin is not None
            assert served.stdout is not None
            for message in asked:
                served.stdin.write(json.dumps(message).encode() + b"\n")
                served.stdin.flush()
                line = served.stdout.readline() if "id" in message else b"{}"
                if not line:
                    raise CrabpotError(f"a measured server ended at {message['method']}")
                answer = json.loads(line)
            took = time.perf_counter() - began
            if not answer["result"]["tools"]:
                raise CrabpotError("a measured server lists no tools")
            served.stdin.close()
        return took

    return one_by_one(lambda: asyncio.to_thread(once))


async def command_line(state: str, rounds: int, peers: list[Entrant]) -> Comparison:
    """Measure whole commands, beside an interpreter that does nothing."""
    program = [sys.executable, "-I", "-m", "crabpot", "--state"]
    alone, lingering = os.path.join(state, "alone.json5"), os.path.join(state, "lingering.json5")
    for path, linger in ((alone, "0"), (lingering, '"10m"')):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(f"{{gateway: {{linger: {linger}}}}}")
    crabpot = [*program, state, "--config", alone]
    second = [*program, os.path.join(state, "lingering"), "--config", lingering]
    entrants = [
        Entrant(name="python -I -c pass", block=spawning([sys.executable, "-I", "-c", "pass"])),
        Entrant(name="crabpot --help", block=spawning([*crabpot, "--help"])),
        Entrant(name="crabpot explain", block=spawning([*crabpot, "explain"])),
        Entrant(name="crabpot exec true", block=spawning([*crabpot, "exec", "--", "true"])),
        Entrant(name="crabpot exec true, a gateway lingering", block=spawning([*second, "exec", "--", "true"])),
        Entrant(name="crabpot mcp to its first tool list", block=listing([*second, "mcp"])),
        *peers,
    ]
    try:
        series = await contest(entrants, rounds)
    finally:
        await asyncio.to_thread(subprocess.run, [*second, "serve", "stop"], capture_output=True, check=False)
    return Comparison(id="commands", what="Whole commands", limit="python -I -c pass", series=series)
