"""What a gateway keeps of sandboxes that are gone: opened and closed by the thousand, nothing may add up."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import TYPE_CHECKING

from bench.entrants import seconds
from bench.figures import Curve, Series
from bench.machine import descendants, sandbox_memory
from crabpot.model import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabpot.gateway import Gateway

_KIB_IN_MB, _MIB = 1024, 1024**2
_POINTS = 50
# A machine of two cores is busy with these; the gateway holds no more than it does with one.
_AT_ONCE = 4


async def endurance(gateway: Gateway, openings: int, seen: Callable[[Curve], None]) -> Curve:
    """Open and close sandboxes, each of a session never seen before, and look at the gateway on the way.

    `seen` gets the curve as it is after each look, so that a run that is broken off has told what it found.
    """
    lines: dict[str, list[tuple[float, Series]]] = {}
    step = max(1, openings // _POINTS)
    await _open_and_close(gateway, [-1])
    for opened in range(0, openings + 1, step):
        if opened:
            await _open_and_close(gateway, range(opened - step, opened))
        for name, value, unit in _held():
            lines.setdefault(name, []).append((opened, Series(name=name, values=(value,), unit=unit)))
        curve = _curve(lines)
        seen(curve)
    return curve


def told(curve: Curve) -> str:
    """Say what the last look at the gateway found."""
    opened = next(iter(curve.lines.values()))[-1][0]
    held = (f"{name} {points[-1][1].median:.4g} {points[-1][1].unit}".rstrip() for name, points in curve.lines.items())
    return f"{opened:,.0f} opened and closed: {', '.join(held)}"


async def _open_and_close(gateway: Gateway, numbers: Iterable[int]) -> None:
    left = iter(numbers)

    async def one_after_the_other() -> None:
        for number in left:
            session = f"agent:main:gone-{number}"
            await seconds(gateway.call(session, "exec", command="true"))
            await gateway.execution.fleet.stop((Place.SANDBOX, session))

    await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))


def _curve(lines: dict[str, list[tuple[float, Series]]]) -> Curve:
    return Curve(
        id="endurance",
        what="What the gateway holds after sandboxes that were opened and closed",
        along="opened and closed",
        lines={name: tuple(line) for name, line in lines.items()},
        note=f"Each was of a session never seen before, {_AT_ONCE} at a time.",
    )


def _held() -> list[tuple[str, float, str]]:
    gc.collect()
    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    return [
        ("memory", int(status["VmRSS"].split()[0]) / _KIB_IN_MB, "MB"),
        ("descriptors", len(os.listdir("/proc/self/fd")), ""),
        ("threads", int(status["Threads"]), ""),
        # The fork server, and the program that put it into its namespaces.
        ("processes below it", len(descendants(os.getpid())), ""),
        ("memory of those", sandbox_memory() / _MIB, "MB"),
    ]
