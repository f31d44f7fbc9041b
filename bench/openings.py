"""Measure opening many sandboxes: one after the other, at intervals, all at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.entrants import seconds
from bench.figures import Comparison, Series
from crabpot.model import Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway

_STAGGER_S = 0.03


async def openings(gateway: Gateway, bare: list[str], count: int, rounds: int) -> tuple[Comparison, Comparison]:
    """Open one after the other, at intervals, and all at once; beside as many bare ones that start Python."""
    gathered: dict[str, list[float]] = {}
    bursts: dict[str, list[float]] = {}
    for turn in range(rounds):
        for way in ("sequential", "staggered", "burst"):
            sessions = [f"agent:main:{way}-{turn}-{number}" for number in range(count)]
            began = time.perf_counter()
            taken = await _open_all(way, [_opened(gateway, session) for session in sessions])
            whole = time.perf_counter() - began
            for session in sessions:
                await gateway.execution.fleet.stop((Place.SANDBOX, session))
            began = time.perf_counter()
            bares = await _open_all(way, [_started(bare) for _ in range(count)])
            bare_whole = time.perf_counter() - began
            gathered.setdefault(f"crabpot, {way}", []).extend(taken)
            gathered.setdefault(f"bare bwrap python3, {way}", []).extend(bares)
            if way == "burst":
                bursts.setdefault("crabpot", []).append(whole)
                bursts.setdefault("bare bwrap python3", []).append(bare_whole)
    return (
        Comparison(
            id="openings",
            what=f"Opening {count}: the time of each, from when it was asked for to its first result",
            note=f"Staggered: one every {_STAGGER_S * 1000:.0f} ms, whether or not the one before has opened.",
            series=tuple(Series(name=name, values=tuple(values)) for name, values in gathered.items()),
        ),
        Comparison(
            id="burst",
            what=f"{count} opened at once: the time of all",
            limit="bare bwrap python3",
            series=tuple(Series(name=name, values=tuple(values)) for name, values in bursts.items()),
        ),
    )


def _opened(gateway: Gateway, session: str) -> Callable[[], Awaitable[float]]:
    return lambda: seconds(gateway.call(session, "exec", command="true"))


def _started(argv: list[str]) -> Callable[[], Awaitable[float]]:
    async def once() -> float:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL)
        if await process.wait():
            raise OSError(f"{argv[0]} failed")
        return time.perf_counter() - began

    return once


async def _open_all(way: str, openers: list[Callable[[], Awaitable[float]]]) -> list[float]:
    if way == "sequential":
        return [await opener() for opener in openers]

    async def after(delay_s: float, opener: Callable[[], Awaitable[float]]) -> float:
        await asyncio.sleep(delay_s)
        return await opener()

    step = _STAGGER_S if way == "staggered" else 0.0
    return list(await asyncio.gather(*(after(step * number, opener) for number, opener in enumerate(openers))))
