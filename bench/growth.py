"""How costs grow: with live sandboxes, concurrent callers, and records in the log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from bench.contest import SPAWN, Entrant, contest, one_by_one
from bench.entrants import SESSION, SMALL, calling, seconds
from bench.figures import Curve, Series
from bench.machine import sandbox_memory
from crabpot.audit import FILE_NAME, chain, tables
from crabpot.model import Place
from crabpot.state import sqlite

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway

_MIB = 1024**2
_AT_ONCE = 16
_TURNS = 3
_ROWS_AT_ONCE = 20_000


async def among(gateway: Gateway, counts: tuple[int, ...], rounds: int) -> tuple[Curve, Curve]:
    """Open more and more sandboxes, and measure what a call costs among them and what each of them takes."""
    times: dict[str, list[tuple[float, Series]]] = {}
    shares: list[tuple[float, Series]] = []
    limit = asyncio.Semaphore(_AT_ONCE)

    async def open_one(index: int) -> None:
        async with limit:
            await seconds(gateway.call(f"agent:main:many-{index}", "exec", command="true"))

    others = sandbox_memory()
    await seconds(gateway.call(SESSION, "write", path="small.txt", content=SMALL))
    alive = 1
    for wanted in counts:
        await asyncio.gather(*(open_one(index) for index in range(alive, wanted)))
        alive = max(alive, wanted)
        share = (sandbox_memory() - others) / alive / _MIB
        shares.append((alive, Series(name="share", values=(share,), unit="MB each")))
        measured = await contest(
            [
                calling(gateway, "exec true", "exec", {"command": "true"}),
                calling(gateway, "read of 4 KiB", "read", {"path": "small.txt"}),
                SPAWN,
            ],
            rounds,
        )
        for series in measured:
            times.setdefault(series.name, []).append((alive, series))
    for index in range(1, alive):
        await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:many-{index}"))
    lines = {name: tuple(points) for name, points in times.items()}
    return (
        Curve(id="among", what="A call among sandboxes that are alive", along="sandboxes alive", lines=lines),
        Curve(
            id="memory",
            what="Memory of a sandbox that is alive and idle (proportional share)",
            along="sandboxes alive",
            lines={"crabpot": tuple(shares)},
        ),
    )


async def callers(gateway: Gateway, counts: tuple[int, ...], lasting_s: float) -> Curve:
    """Let more and more callers call at once, each in a sandbox of its own, and measure the throughput, in turns."""
    rates: dict[str, dict[int, list[float]]] = {}

    def note(name: str, callers: int, rate: float) -> None:
        rates.setdefault(name, {}).setdefault(callers, []).append(rate)

    for number in range(max(counts)):
        await seconds(gateway.call(f"agent:main:caller-{number}", "write", path="small.txt", content=SMALL))
    for wanted in counts * _TURNS:
        for name, tool, args in (
            ("read of 4 KiB", "read", {"path": "small.txt"}),
            ("exec true", "exec", {"command": "true"}),
        ):
            done = await _together(
                wanted,
                lasting_s,
                lambda n, tool=tool, args=args: seconds(gateway.call(f"agent:main:caller-{n}", tool, args)),  # type: ignore[misc]
            )
            note(name, wanted, done)
        note("bare spawn, by threads", wanted, await asyncio.to_thread(_spawns, wanted, lasting_s))
    for number in range(max(counts)):
        await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:caller-{number}"))
    return Curve(
        id="callers",
        what="Calls in a second",
        along="callers at once",
        lines={
            name: tuple((n, Series(name=name, values=tuple(values), unit="calls/s")) for n, values in points.items())
            for name, points in rates.items()
        },
        note="Somewhere on the way the audit log reaches 100,000 records and packs the older ones away: a dip is that.",
    )


async def _together(callers: int, lasting_s: float, once: Callable[[int], Awaitable[float]]) -> float:
    until = time.perf_counter() + lasting_s

    async def caller(number: int) -> int:
        done = 0
        while time.perf_counter() < until:
            await once(number)
            done += 1
        return done

    began = time.perf_counter()
    done = sum(await asyncio.gather(*map(caller, range(callers))))
    return done / (time.perf_counter() - began)


def _spawns(callers: int, lasting_s: float) -> float:
    until = time.perf_counter() + lasting_s

    def caller(_: int) -> int:
        done = 0
        while time.perf_counter() < until:
            subprocess.run(["sh", "-c", "true"], check=True)
            done += 1
        return done

    began = time.perf_counter()
    with ThreadPoolExecutor(callers) as threads:
        done = sum(threads.map(caller, range(callers)))
    return done / (time.perf_counter() - began)


async def records(open_gateway: Callable[[int], Gateway], state: str, counts: tuple[int, ...], rounds: int) -> Curve:
    """Lengthen the audit log, and measure what a call, and a record that is waited for, cost with it."""
    lines: dict[str, list[tuple[float, Series]]] = {}
    written = 0
    for wanted in counts:
        if wanted > written:
            await asyncio.to_thread(_lengthen, os.path.join(state, FILE_NAME), wanted - written)
            written = wanted
        gateway = open_gateway(max(counts))
        try:
            await seconds(gateway.call(SESSION, "exec", command="true"))
            entrants = [calling(gateway, "exec true", "exec", {"command": "true"}), _recording(gateway), SPAWN]
            for series in await contest(entrants, rounds):
                lines.setdefault(series.name, []).append((wanted, series))
        finally:
            await gateway.close()
    return Curve(
        id="records",
        what="A call behind an audit log that grows",
        along="records in the log",
        lines={name: tuple(points) for name, points in lines.items()},
    )


def _recording(gateway: Gateway) -> Entrant:
    async def once() -> float:
        began = time.perf_counter()
        gateway.audit.record({"kind": "bench"})
        await gateway.audit.durable()
        return time.perf_counter() - began

    return Entrant(name="a record, on disk", block=one_by_one(once))


def _lengthen(file: str, count: int) -> None:
    """Append real records, chained like the log's own."""
    connection = sqlite.connect(file, tables.SCHEMA)
    record = {
        "kind": "call",
        "session": SESSION,
        "tool": "exec",
        "args": {"command": "true"},
        "success": True,
        "time": 1.0,
    }
    try:
        for done in range(0, count, _ROWS_AT_ONCE):
            connection.execute("BEGIN IMMEDIATE")
            chain.append(connection, [chain.Entry(record)] * min(_ROWS_AT_ONCE, count - done))
            connection.execute("COMMIT")
    finally:
        connection.close()
