"""The honest agent and the operator's page, measured in a program of its own: `python -m tests.hostile_run.bystander STATE PORT HTTP TOKEN`.

Whoever answers requests for approval reads a stream of events meanwhile, and what that takes is not the gateway's time.
Nor is what a program of this machine waits for a processor, so this one has real-time priority where it may. A bare
command beside it tells how much slower the machine itself has become. It does each thing over and over for as many
seconds as a line of its input says, and prints how long each took.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.doors.local.client import connect
from tests.hostile_run.probes import Browser, Probes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CALL, REACH, PAGE = "a call", "a listed host, by name", "the dashboard's API"
BARE = "a bare command of the host"
# Models and people take longer between two calls or two answers.
_PAUSE_S = 0.2


async def measure(probe: Callable[[], Awaitable[None]], lasts_s: float) -> list[float]:
    """Do one thing over and over, with a pause, and return how long each took."""
    waits: list[float] = []
    end = time.monotonic() + lasts_s
    while time.monotonic() < end or not waits:
        began = time.monotonic()
        await probe()
        waits.append(time.monotonic() - began)
        await asyncio.sleep(_PAUSE_S)
    return waits


async def _spawn() -> None:
    running = await asyncio.create_subprocess_exec("/bin/sh", "-c", ":", stdin=asyncio.subprocess.DEVNULL)
    assert await running.wait() == 0


def _go_first() -> None:
    """Wait for no processor; what this program starts is as any other."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


async def _main(state: str, port: str, http: str, token: str) -> None:
    client = await connect(state)
    assert client is not None
    probes = Probes(client, Browser(int(http), token))
    wanted = {CALL: probes.call, REACH: lambda: probes.reach(int(port)), PAGE: probes.page, BARE: _spawn}
    for probe in wanted.values():
        await probe()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        found = await asyncio.gather(*(measure(probe, float(line)) for probe in wanted.values()))
        print(json.dumps(dict(zip(wanted, found, strict=True))), flush=True)
    await client.close()


if __name__ == "__main__":
    _go_first()
    asyncio.run(_main(*sys.argv[1:]))
