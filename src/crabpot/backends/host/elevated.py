"""Run one planned command on the host: a runner of its own, started in the held folder, that ends with the command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.backends.host.backend import start_in
from crabpot.backends.wire import RunnerWire
from crabpot.elevation import host

if TYPE_CHECKING:
    from crabpot.backends.inflight import Sink
    from crabpot.backends.reply import Reply
    from crabpot.backends.wire import Source
    from crabpot.elevation.host import Plan

_START_S = 20.0


async def run(
    plan: Plan, *, timeout_s: float, output_limit: int, sink: Sink | None = None, source: Source | None = None
) -> Reply:
    """Look again whether all is as it was shown, then run it to its end; HostRefused if it is not.

    Output is kept or streamed, limited and cut as inside a sandbox. Cancelled, it leaves no process behind.
    """
    await host.check(plan)
    runner = start_in(plan.folder.entry, shown=plan.folder.path, output_limit=output_limit, environ=plan.env)
    try:
        wire = await RunnerWire.connect(runner.channel, runner.hello, timeout_s=_START_S)
        try:
            return await wire.call(
                "run",
                {"argv": list(plan.argv), "binary": plan.binary.as_json()},
                timeout_s=timeout_s,
                source=source,
                sink=sink,
            )
        finally:
            wire.lose("its command ended")
    finally:
        await asyncio.shield(asyncio.ensure_future(runner.close()))
