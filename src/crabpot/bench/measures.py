"""The measurements themselves. Ours and what it is compared with take turns, so that noise falls on both."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from crabpot.bench.figures import Figure, Series
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

_MIB = 1024**2
_BLOCK = 10


def spawn_seconds() -> float:
    """Time the limit: a bare shell spawned from Python on the host."""
    began = time.perf_counter()
    subprocess.run(["sh", "-c", "true"], check=True)
    return time.perf_counter() - began


async def _seconds(work: Awaitable[ToolResult]) -> float:
    began = time.perf_counter()
    result = await work
    took = time.perf_counter() - began
    if not result.success:
        raise CrabpotError(f"a measured call failed: {result.error or result.stderr}")
    return took


async def _beside_spawn(what: str, at_most: float, times: int, once: Callable[[], Awaitable[float]]) -> Figure:
    """Take turns in blocks: a lone call right after a spawn would pay for the spawn's cold caches."""
    ours: list[float] = []
    spawns: list[float] = []
    for _ in range(times // _BLOCK + 1):
        ours += [await once() for _ in range(_BLOCK)]
        spawns += [spawn_seconds() for _ in range(_BLOCK)]
    return Figure(
        what=what,
        ours=Series(name=what, values=tuple(ours[_BLOCK:])),
        other=Series(name="bare spawn", values=tuple(spawns[_BLOCK:])),
        at_most=at_most,
    )


async def exec_true(gateway: Gateway, times: int) -> Figure:
    """`exec true` through the whole pipeline."""
    await gateway.call("agent:main:bench", "exec", command="true")
    return await _beside_spawn(
        "`exec true`, embedded", 1.5, times, lambda: _seconds(gateway.call("agent:main:bench", "exec", command="true"))
    )


async def read_small(gateway: Gateway, times: int) -> Figure:
    """`read` of 4 KiB."""
    await gateway.call("agent:main:bench", "write", path="small.txt", content="x" * 63 + "\n" + ("y" * 63 + "\n") * 63)

    def once() -> Awaitable[float]:
        return _seconds(gateway.call("agent:main:bench", "read", path="small.txt"))

    return await _beside_spawn("`read` of 4 KiB, embedded", 0.3, times, once)


async def cold_open(gateway: Gateway, times: int) -> Series:
    """A first call of a session that has no sandbox yet, to its result."""
    values = [
        await _seconds(gateway.call(f"agent:main:cold-{index}", "exec", command="true")) for index in range(times)
    ]
    return Series(name="cold open to first result", values=tuple(values))


async def warm_claim(gateway: Gateway, times: int, ready: Callable[[], Awaitable[None]]) -> Figure:
    """A first call of a session that gets a sandbox kept ready; `ready` waits until one is."""
    indexes = iter(range(10**6))

    async def once() -> float:
        await ready()
        return await _seconds(gateway.call(f"agent:main:warm-{next(indexes)}", "exec", command="true"))

    return await _beside_spawn("warm claim to first result", 2.5, times, once)


async def burst(gateway: Gateway, bare: list[str], count: int, rounds: int) -> Figure:
    """Many sandboxes opened at once, beside as many bare bubblewraps that only start Python."""
    ours, others = [], []
    for index in range(rounds):
        began = time.perf_counter()
        await asyncio.gather(
            *(_seconds(gateway.call(f"agent:main:burst-{index}-{n}", "exec", command="true")) for n in range(count))
        )
        ours.append(time.perf_counter() - began)
        for n in range(count):
            await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:burst-{index}-{n}"))
        began = time.perf_counter()
        for process in [subprocess.Popen(bare, stdin=subprocess.DEVNULL) for _ in range(count)]:
            process.wait()
        others.append(time.perf_counter() - began)
    return Figure(
        what=f"{count} sandboxes opened at once",
        ours=Series(name="opened at once", values=tuple(ours)),
        other=Series(name=f"{count} bare bwrap python3", values=tuple(others)),
        at_most=1.5,
    )


async def many_alive(gateway: Gateway, count: int, times: int, memory_of: Callable[[], list[int]]) -> list[Figure]:
    """Memory of idle sandboxes, and whether a call gets slower among them."""
    alone = [await _seconds(gateway.call("agent:main:bench", "exec", command="true")) for _ in range(times)]
    limit = asyncio.Semaphore(16)

    async def open_one(index: int) -> None:
        async with limit:
            await _seconds(gateway.call(f"agent:main:many-{index}", "exec", command="true"))

    await asyncio.gather(*(open_one(index) for index in range(count)))
    sizes = memory_of()
    among = [await _seconds(gateway.call("agent:main:bench", "exec", command="true")) for _ in range(times)]
    for index in range(count):
        await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:many-{index}"))
    share = Series(name="proportional share", values=tuple(size / _MIB for size in sizes), unit="MB each")
    return [
        Figure(
            what=f"{count} alive and idle: memory",
            ours=share,
            other=Series(name="10 MB", values=(10.0,), unit="MB"),
            at_most=1.0,
        ),
        Figure(
            what=f"`exec true` among {count} alive",
            ours=Series(name="among many", values=tuple(among)),
            other=Series(name="with one alive", values=tuple(alone)),
            at_most=1.5,
        ),
    ]


async def large_file(gateway: Gateway, size: int, rounds: int) -> list[Figure]:
    """A large file in and out, as speed, beside `cat` through a pipe."""
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
            into = gateway.call("agent:main:bench", "write", args, streams=Streams(source=pieces()))
            inward.append(size / _MIB / await _seconds(into))
            args = {"path": "large", "encoding": "base64"}
            out = gateway.call("agent:main:bench", "read", args, streams=Streams(sink=drop))
            outward.append(size / _MIB / await _seconds(out))
            pipes.append(size / _MIB / _cat_seconds(path))
    other = Series(name="`cat` through a pipe", values=tuple(pipes), unit="MB/s")
    return [
        Figure(
            what=f"{size // _MIB} MB file {way}",
            ours=Series(name=way, values=tuple(values), unit="MB/s"),
            other=other,
            at_least=1 / 3,
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


def command_line(state: str, times: int, peer: list[str] | None) -> list[Figure]:
    """Whole commands, beside the interpreter doing nothing."""
    rows = {"`crabpot --help`": (["--help"], 10.0), "`crabpot explain`": (["--state", state, "explain"], 15.0)}
    made = []
    for what, (arguments, at_most) in rows.items():
        command = [sys.executable, "-I", "-m", "crabpot", *arguments]
        ours, others = _taking_turns(command, [sys.executable, "-c", "pass"], times)
        made.append(
            Figure(
                what=what,
                ours=Series(name=what, values=ours),
                other=Series(name="`python3 -c pass`", values=others),
                at_most=at_most,
            )
        )
    one_shot = [sys.executable, "-I", "-m", "crabpot", "--state", state, "exec", "--", "true"]
    ours, others = _taking_turns(one_shot, peer or ["true"], max(5, times // 2))
    other = Series(name="`srt true`", values=others) if peer else None
    made.append(
        Figure(
            what="one-shot `crabpot exec true`",
            ours=Series(name="one-shot", values=ours),
            other=other,
            at_most=1.0,
            missing="" if peer else "srt is not installed",
        )
    )
    return made


def _taking_turns(ours: list[str], other: list[str], times: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    first, second = [], []
    for index in range(times + 1):
        pair = (_command_seconds(ours), _command_seconds(other))
        if index:
            first.append(pair[0])
            second.append(pair[1])
    return tuple(first), tuple(second)


def _command_seconds(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
