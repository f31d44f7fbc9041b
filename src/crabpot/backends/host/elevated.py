"""Run one planned command on the host: a runner of its own, started in the held folder, that ends with the command."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.backends.host.backend import start_in
from crabpot.backends.wire import RunnerWire
from crabpot.elevation import host

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from crabpot.backends.host.backend import HostRunner
    from crabpot.backends.host.turns import Turns
    from crabpot.backends.inflight import Sink
    from crabpot.backends.reply import Reply
    from crabpot.backends.wire import Signals, Source
    from crabpot.elevation.host import Plan
    from crabpot.elevation.loopback import Hop

_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A program inside that waits for the command: it gets all of the output, at its own pace, and sends signals."""

    signals: Signals
    turns: Turns | None


async def run(  # noqa: PLR0913  a command's streams are optional and independent
    plan: Plan,
    *,
    timeout_s: float,
    output_limit: int,
    sink: Sink | None = None,
    source: Source | None = None,
    caller: Caller | None = None,
) -> Reply:
    """Look again whether all is as it was shown, then run it to its end; HostRefused if it is not.

    Output is kept or streamed, limited and cut as inside a sandbox. Cancelled, it leaves no process behind.
    """
    await host.check(plan)
    argv, binary, env = plan.started
    runner = start_in(plan.folder.entry, shown=plan.folder.path, output_limit=output_limit, environ=env)
    whole = False
    try:
        wire = await RunnerWire.connect(runner.channel, runner.hello, timeout_s=_START_S)
        try:
            called = asyncio.ensure_future(
                wire.call(
                    "run",
                    {"argv": list(argv), "binary": binary.as_json(), "paced": caller is not None},
                    timeout_s=timeout_s,
                    source=source,
                    sink=sink,
                    signals=_signals(plan, caller),
                )
            )
            reply = await _accompanied(called, _company(plan, caller, runner.pid))
            whole = reply.error is None
            return reply
        finally:
            wire.lose("its command ended")
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(plan, runner, whole=whole)))


def _signals(plan: Plan, caller: Caller | None) -> Signals | None:
    return None if caller is None or plan.hop is not None else caller.signals


def _company(plan: Plan, caller: Caller | None, pid: int) -> Coroutine[Any, Any, None] | None:
    """Give what goes on beside a command: its sandbox's turns, or signals that ssh itself does not carry."""
    if caller is None:
        return None
    if plan.hop is not None:
        return _signal_over(plan.hop, caller.signals)
    return None if caller.turns is None else caller.turns.take(pid)


async def _accompanied(called: asyncio.Future[Reply], company: Coroutine[Any, Any, None] | None) -> Reply:
    if company is None:
        return await called
    beside = asyncio.ensure_future(company)
    try:
        both: set[asyncio.Future[Any]] = {called, beside}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if beside.done():
            beside.result()
        return await called
    finally:
        # First, so that the command can be ended: what is stopped answers nobody.
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        called.cancel()
        await asyncio.gather(called, return_exceptions=True)


async def _signal_over(hop: Hop, signals: Signals) -> None:
    async for name in signals:
        await _ssh(hop, hop.signal(name))


async def _end(plan: Plan, runner: HostRunner, *, whole: bool) -> None:
    """End the runner, and over ssh what does not end with it."""
    await runner.close()
    if plan.hop is not None and not whole:
        await _ssh(plan.hop, plan.hop.signal("KILL"))


async def _ssh(hop: Hop, script: str) -> None:
    process = await asyncio.create_subprocess_exec(
        hop.ssh.path,
        *hop.words(script)[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(_START_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
