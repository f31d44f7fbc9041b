"""One run of the benchmark: throw-away states, part after part, progress on the way, nothing left behind."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import rows
from bench.figures import Report
from bench.machine import machine
from bench.parts import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.doors import Reach
    from crabpot.gateway import Gateway

# Those that the peers take part in come first: they are ended before the rest is measured.
_BESIDE_PEERS = ("calls", "commands")
# What the figures to hold are taken from, and what else is worth a plot.
HELD = (*_BESIDE_PEERS, "doors", "openings", "many", "review", "search", "servers", "files", "download")
AT_LENGTH = ("tools", "callers", "records", "endurance")
FIGURES = "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure, with what."""

    # Makes a gateway: the text of a configuration, a state folder.
    open_gateway: Callable[[str, str], Gateway]
    reach: Reach
    progress: Callable[[str], None]
    environ: Mapping[str, str]
    version: str
    cache: str
    full: bool
    install: bool
    # Parts; FIGURES stands for all of HELD.
    only: tuple[str, ...] = ()
    # How many sandboxes are opened and closed, and where what was seen on the way is written.
    count: int = 10_000
    curve: str | None = None

    @property
    def rounds(self) -> int:
        """Return how many turns everybody has."""
        return 15 if self.full else 6

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the parts to measure, in their order."""
        everything = (*HELD, *AT_LENGTH)
        wanted = self.only or (everything if self.full else HELD)
        return tuple(part for part in everything if part in wanted or (FIGURES in wanted and part in HELD))


async def run(plan: BenchOptions) -> Report:
    """Measure. Whatever happens, nothing is left running."""
    alone = bool(plan.only) and FIGURES not in plan.only
    stated = machine(plan.version) | ({"measured": f"{', '.join(plan.only)} alone"} if alone else {})
    began = time.monotonic()
    parts = plan.parts

    def told(part: str) -> None:
        at = f"{parts.index(part) + 1}/{len(parts)}"
        plan.progress(f"{time.monotonic() - began:5.0f} s  {at}  {part}")

    one = Run(plan=plan)
    async with AsyncExitStack() as one.lasting:
        for part in (part for part in parts if part in _BESIDE_PEERS):
            told(part)
            await one.measure(part)
    for part in (part for part in parts if part not in _BESIDE_PEERS):
        told(part)
        await one.measure(part)
    absent = {name: peer["absent"] for name, peer in one.peers.items() if "absent" in peer}
    held = rows.figures(one.comparisons, one.curves, {**one.why, **absent})
    return Report(
        machine=stated | {"minutes": f"{(time.monotonic() - began) / 60:.1f}"},
        peers=one.peers,
        figures=(*(row for row in held if not alone or row.other is not None), *one.figures),
        comparisons=tuple(one.comparisons),
        curves=tuple(one.curves),
    )
