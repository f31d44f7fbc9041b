"""What a gateway keeps of sandboxes that are gone: opened and closed by the thousand, nothing may add up."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from bench.entrants import seconds
from bench.figures import Curve, Series
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.gateway import Gateway

_KIB_IN_MB = 1024


async def endurance(gateway: Gateway, openings: int, points: int = 20) -> Curve:
    """Open and close one sandbox after the other, each of a session never seen before, and look at the gateway."""
    lines: dict[str, list[tuple[float, Series]]] = {}
    for number in range(openings + 1):
        session = f"agent:main:gone-{number}"
        await seconds(gateway.call(session, "exec", command="true"))
        await gateway.execution.fleet.stop((Place.SANDBOX, session))
        if number % max(1, openings // points) == 0:
            for name, value, unit in _held():
                lines.setdefault(name, []).append((number, Series(name=name, values=(value,), unit=unit)))
    return Curve(
        id="endurance",
        what="What the gateway holds after sandboxes that were opened and closed",
        along="opened and closed",
        lines={name: tuple(line) for name, line in lines.items()},
        note="Each was of a session never seen before.",
    )


def _held() -> list[tuple[str, float, str]]:
    gc.collect()
    with open("/proc/self/status", encoding="utf-8") as file:
        status = dict(line.split(":", 1) for line in file)
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
        children = file.read().split()
    return [
        ("memory", int(status["VmRSS"].split()[0]) / _KIB_IN_MB, "MB"),
        ("descriptors", len(os.listdir("/proc/self/fd")), ""),
        ("threads", int(status["Threads"]), ""),
        ("child processes", len(children), ""),
    ]
