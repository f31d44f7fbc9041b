"""Measure several entrants in turns, in blocks, after a warm-up: what disturbs the machine disturbs them all."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.figures import Series
from bench.peers.peer import PeerFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    # This many measurements, one after the other, in seconds.
    Block = Callable[[int], Awaitable[list[float]]]

# In blocks: a lone call right after another entrant's would pay for cold caches. No longer than this for a slow one.
_BLOCK, _BLOCK_S = 10, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One way to do the measured thing."""

    name: str
    block: Block


def one_by_one(once: Callable[[], Awaitable[float]]) -> Block:
    """Return a block that repeats a single measurement."""

    async def block(times: int) -> list[float]:
        return [await once() for _ in range(times)]

    return block


def spawning(argv: list[str]) -> Block:
    """Return a block that spawns a command of the host."""

    def once() -> float:
        began = time.perf_counter()
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    async def block(times: int) -> list[float]:
        return [once() for _ in range(times)]

    return block


# The limit: a bare shell, spawned from Python on the host.
SPAWN = Entrant(name="bare spawn", block=spawning(["sh", "-c", "true"]))


async def contest(
    entrants: list[Entrant], rounds: int, failed: Callable[[str, str], None] | None = None
) -> tuple[Series, ...]:
    """Measure all of them, round by round. One that fails drops out, and `failed` is called with the reason."""
    sizes: dict[str, int] = {}
    values: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for entrant in entrants:
            name = entrant.name
            if number and name not in sizes:
                continue
            try:
                measured = await entrant.block(sizes.get(name, 2))
            except PeerFailed as error:
                sizes.pop(name, None)
                if failed is None:
                    raise
                failed(name, str(error))
                continue
            if number:
                values.setdefault(name, []).extend(measured)
            else:
                # The first call of all may have opened a sandbox, or started a server.
                sizes[name] = max(1, min(_BLOCK, int(_BLOCK_S / min(measured))))
    return tuple(Series(name=name, values=tuple(found)) for name, found in values.items())
