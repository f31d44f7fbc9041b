"""How long our sandbox takes beside what the framework itself has for this machine: `python -m tests.frameworks.times NAME`.

Prints a row of a table: the median of each operation in milliseconds, ours and theirs, and the ratio. Both take turns,
so that a busy moment is nobody's.
"""

from __future__ import annotations

import asyncio
import inspect
import statistics
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from tests.frameworks.providers import named

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.frameworks.providers import Provider

OPENINGS, TURNS = 5, 30
PAGE = bytes(range(256)) * 16


async def timed(doing: Awaitable[object]) -> float:
    """Return how many milliseconds something takes."""
    begun = time.perf_counter()
    await doing
    return (time.perf_counter() - begun) * 1000


async def opening(made: Callable[[], AbstractAsyncContextManager[Provider]]) -> None:
    """Open one, do the least that it can do, and end it."""
    async with made() as box:
        await box.least()


def operations(box: Provider) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return what both sides do, where the framework has it."""
    read, write = box.read, box.write
    found: dict[str, Callable[[], Awaitable[object]]] = {"exec": box.least}
    if read is not None:
        found["read"] = lambda: read("page")
    if write is not None:
        found["write"] = lambda: write("page", PAGE)
    return found


async def measured(name: str, folder: str) -> dict[str, tuple[float, float]]:
    """Return the medians of each operation, ours and theirs."""
    framework, there = named(name), Path(folder, "theirs")
    there.mkdir()
    # Methods that wait are called alike on both sides, from the program's own thread.
    waiting = {"waiting": True} if "waiting" in inspect.signature(framework.ours).parameters else {}
    sides = (lambda: framework.ours(state=f"{folder}/state", **waiting), lambda: framework.theirs(str(there)))
    took: dict[str, tuple[list[float], list[float]]] = {"open": ([], [])}
    for _ in range(OPENINGS):
        for side, made in enumerate(sides):
            took["open"][side].append(await timed(opening(made)))
    async with sides[0]() as ours, sides[1]() as theirs:
        both = [operations(ours), operations(theirs)]
        for side in both:
            for do in (side.get("write"), *side.values()):
                if do is not None:
                    await do()
        for operation in both[0]:
            took[operation] = ([], [])
            for _ in range(TURNS):
                for side in (0, 1):
                    took[operation][side].append(await timed(both[side][operation]()))
    return {name: (statistics.median(times[0]), statistics.median(times[1])) for name, times in took.items()}


def row(name: str) -> str:
    """Return the row of a framework: exec, read, write and open."""
    # Some frameworks say a word at each start.
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        found = asyncio.run(measured(name, folder))
    cells = []
    for operation in ("exec", "read", "write", "open"):
        if operation not in found:
            cells.append("–")
            continue
        ours, theirs = found[operation]
        ratio = ours / theirs
        cells.append(f"{ours:.2f} : {theirs:.2f} = {ratio:.{0 if ratio >= 10 else 1}f}")
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    print(row(sys.argv[1]))
