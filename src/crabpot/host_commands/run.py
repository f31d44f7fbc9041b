"""Run one planned command on the host, in its guard and folder, by a runner that ends with the command."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.backends.host.backend import start_in
from crabpot.errors import HostRefused, SandboxError
from crabpot.host_commands.guard.start import Guarded, start
from crabpot.host_commands.hints import Listening, with_hint
from crabpot.host_commands.plan import check
from crabpot.wire.calls import RunnerWire

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from crabpot.backends.host.backend import HostRunner
    from crabpot.host_commands.alternation import Alternation
    from crabpot.host_commands.loopback import Hop
    from crabpot.host_commands.plan import Plan
    from crabpot.wire.calls import Signals, Source
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply

_START_S = 20.0
_TRIES = 3
_ENDS = ("INT", "TERM", "HUP", "QUIT")


class NoGuard(HostRefused):
    """A guard could not be made; nothing ran in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A program inside that waits for the command: it gets all the output, at its own pace, and sends signals."""

    signals: Signals
    alternation: Alternation | None


async def run(  # noqa: PLR0913  a command's streams are optional and independent
    plan: Plan,
    *,
    timeout_s: float,
    output_limit: int,
    sink: Sink | None = None,
    source: Source | None = None,
    caller: Caller | None = None,
) -> Reply:
    """Check that everything is still as shown, then run the command to its end; HostRefused if not.

    Output is kept or streamed, limited and cut as in a sandbox. When cancelled, no process is left behind.
    """
    await check(plan)
    if plan.relay is not None:
        relayed = asyncio.ensure_future(plan.relay.run(timeout_s=timeout_s, output_limit=output_limit, sink=sink))
        return await _accompanied(relayed, None if caller is None else _interrupted(caller.signals))
    argv, binary, _ = plan.started
    runner, wire = await _begin(plan, output_limit)
    whole = False
    heard = None if sink is None else Listening(sink)
    try:
        try:
            called = asyncio.ensure_future(
                wire.call(
                    "run",
                    {
                        "argv": list(argv),
                        "binary": binary.as_json(),
                        "folder": [plan.folder.dev, plan.folder.ino],
                        "paced": caller is not None,
                    },
                    timeout_s=timeout_s,
                    source=source,
                    sink=heard,
                    signals=_signals(plan, caller),
                )
            )
            reply = await _accompanied(called, _company(plan, caller, runner.pid))
            whole = reply.error is None
            return await with_hint(reply, plan, heard)
        finally:
            wire.lose("its command ended")
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(plan, runner, whole=whole)))


async def _begin(plan: Plan, output_limit: int) -> tuple[HostRunner, RunnerWire]:
    """Start a runner; a guard that could not be made is tried again: on a busy host bwrap sometimes fails once."""
    for tries_left in reversed(range(_TRIES)):
        runner = _start(plan, output_limit)
        try:
            return runner, await _connect(runner)
        except BaseException as error:
            # It was not told what to run, so nothing ran.
            await asyncio.shield(asyncio.ensure_future(_end(plan, runner, whole=False)))
            if not (tries_left and isinstance(error, NoGuard)):
                raise
    raise AssertionError("the last try returns or raises")


def _start(plan: Plan, output_limit: int) -> HostRunner:
    _, _, env = plan.started
    folder = plan.folder
    if plan.guard is None:
        return start_in(folder.entry, shown=folder.path, output_limit=output_limit, environ=env)
    return start(plan.guard.view, plan.guard.bwrap, folder=folder.path, output_limit=output_limit, environ=env)


async def _connect(runner: HostRunner) -> RunnerWire:
    """Connect to the runner; a guard is checked from outside before it learns what to run."""
    try:
        wire = await RunnerWire.connect(runner.channel, runner.hello, timeout_s=_START_S)
    except SandboxError:
        if isinstance(runner, Guarded):
            raise NoGuard("denied", f"no guard could be made: {runner.reason()}") from None
        raise
    if isinstance(runner, Guarded):
        runner.check()
    return wire


def _signals(plan: Plan, caller: Caller | None) -> Signals | None:
    return None if caller is None or plan.hop is not None else caller.signals


def _company(plan: Plan, caller: Caller | None, pid: int) -> Coroutine[Any, Any, None] | None:
    """Return what runs alongside a command: its alternation, or signals that ssh does not carry."""
    if caller is None:
        return None
    if plan.hop is not None:
        return _signal_over(plan.hop, caller.signals)
    return None if caller.alternation is None else caller.alternation.take(pid)


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
        # First, so that the command can be ended: a stopped process does not respond.
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        called.cancel()
        await asyncio.gather(called, return_exceptions=True)


async def _interrupted(signals: Signals) -> None:
    async for name in signals:
        if name in _ENDS:
            raise HostRefused("cancelled", f"it was interrupted by SIG{name}")


async def _signal_over(hop: Hop, signals: Signals) -> None:
    async for name in signals:
        await _ssh(hop, hop.signal(name))


async def _end(plan: Plan, runner: HostRunner, *, whole: bool) -> None:
    """End the runner, and over ssh also the processes that do not end with it."""
    await runner.close()
    if plan.hop is not None and not whole:
        await _ssh(plan.hop, plan.hop.signal("KILL"))


async def _ssh(hop: Hop, script: str) -> None:
    process = await asyncio.create_subprocess_exec(
        hop.ssh.path,
        *hop.argv(script)[1:],
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
