"""Host commands: a program inside calls a shim, and the command is elevated like any other."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from crabpot.audit.records import of_call
from crabpot.decide import elevation
from crabpot.decide.elevation import Decision
from crabpot.decide.placement import Placement
from crabpot.errors import HostRefused
from crabpot.host_commands import run as elevated
from crabpot.host_commands.alternation import Alternation
from crabpot.host_commands.plan import check
from crabpot.model import Place, ToolCall
from crabpot.sandboxes.streams import counting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from crabpot.decide.elevation import Elevation
    from crabpot.decide.scope import Scope
    from crabpot.host_commands.elevated import ElevatedCommands
    from crabpot.host_commands.plan import Plan
    from crabpot.model import ToolResult, Verdict
    from crabpot.sandboxes.live import Live
    from crabpot.wire.replies import Reply
    from crabpot.wire.upcalls import Answers, Upcall

_PASSED_ON = frozenset({"INT", "TERM", "HUP", "QUIT", "USR1", "USR2"})
_ENDS = frozenset({"INT", "TERM", "HUP", "QUIT"})
_MANY_SIGNALS = 64
# Linux allows no longer argument list, and nobody reads that much before agreeing.
_MOST_WORDS, _LONGEST = 4096, 128 * 1024
# Per sandbox: each may wait minutes for a person, with its whole argv in the gateway's memory.
AT_ONCE = 32


def _name_calls() -> Iterator[str]:
    name = os.urandom(8).hex()
    return (f"{name}-{number}" for number in count(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCommands:
    """Answers the upcalls of shims."""

    elevated: ElevatedCommands
    _ids: Iterator[str] = field(default_factory=_name_calls)

    def answers(self, scope: Scope) -> Answers:
        """Return the upcalls that a scope's sandbox may make: none, unless host commands are listed."""
        waiting: set[Upcall] = set()
        return {"run": partial(self._answer_in_turn, scope, waiting)} if scope.agent.sandbox.host_commands else {}

    async def _answer_in_turn(self, scope: Scope, waiting: set[Upcall], upcall: Upcall) -> None:
        if len(waiting) >= AT_ONCE:
            message = f"{AT_ONCE} host commands of this sandbox are already running; try again when one has ended"
            upcall.reply(error={"code": "process_limit", "message": message})
            return
        waiting.add(upcall)
        try:
            await self._answer(scope, upcall)
        finally:
            waiting.discard(upcall)

    async def _answer(self, scope: Scope, upcall: Upcall) -> None:
        try:
            argv, cwd = _parse(upcall)
        except ValueError as error:
            upcall.reply(error={"code": "invalid_arguments", "message": str(error)})
            return
        limits = scope.agent.sandbox.limits
        args = {"command": shlex.join(argv), "cwd": cwd, "timeout": limits.time_ceiling}
        call = ToolCall(id=next(self._ids), session=scope.session, tool="exec", args=args)
        verdict = elevation.decide_host_command(argv, scope.agent)
        link = _Link(upcall)
        if verdict.answer.decision is Decision.SANDBOXED:
            result = call.failed("denied", f"{argv[0]} may not run on the host: {verdict.because} ({verdict.source})")
        else:
            result = await self._elevate(scope, link, call, verdict)
        self.elevated.audit.record(of_call(call, scope.agent.id, result, verdict, link.streamed))
        _reply(upcall, result)

    async def _elevate(self, scope: Scope, link: _Link, call: ToolCall, verdict: Verdict[Elevation]) -> ToolResult:
        placed = Placement(where=Place.SANDBOX, scope_key=scope.key)
        running = asyncio.ensure_future(
            self.elevated.run(
                call, scope.agent, placed, verdict, None, launch=partial(self._run, scope, link), asked_by=scope
            )
        )
        hearing = asyncio.ensure_future(link.hear(running))
        try:
            return await running
        except asyncio.CancelledError:
            what = "the program that called it ended" if link.started else "it was interrupted before it started"
            result = call.failed("cancelled", what)
            if link.upcall.dropped.is_set():
                self.elevated.audit.record(of_call(call, scope.agent.id, result, verdict, link.streamed))
                raise
            return result
        finally:
            hearing.cancel()

    async def _run(self, scope: Scope, link: _Link, plan: Plan, timeout_s: float) -> Reply:
        fleet = self.elevated.execution.fleet
        caller = next((live for live in fleet.listed() if live.scope is scope), None)
        if caller is None:
            raise HostRefused("conflict", "the sandbox that asked is ending")
        link.started = True
        folder = os.path.realpath(plan.folder.path)

        def stands_still(live: Live) -> bool:
            # A command of another user cannot be stopped, so its caller could not take turns with it.
            # Relayed git works with the caller's git, and reads nothing of the folder.
            moves = plan.relay is not None or (live is caller and plan.hop is not None)
            return not moves and live.can_reach(folder)

        async with fleet.frozen(stands_still):
            return await elevated.run(
                plan,
                timeout_s=timeout_s,
                output_limit=scope.agent.sandbox.limits.output,
                sink=counting(link.sink, link.streamed),
                source=link.source(),
                caller=elevated.Caller(signals=link.signals(), alternation=_alternation(caller, plan, link)),
            )


def _alternation(caller: Live, plan: Plan, link: _Link) -> Alternation | None:
    """Return the alternation of the waiting sandbox with its command, if it could change the folder."""
    if plan.hop is not None or plan.relay is not None or not caller.can_reach(os.path.realpath(plan.folder.path)):
        return None
    return Alternation(caller, lambda: check(plan), waits=lambda: link.behind > 0)


class _Link:
    """The streams of one shim."""

    def __init__(self, upcall: Upcall) -> None:
        self.started = False
        self.streamed: dict[str, int] = {}
        self.behind = 0
        self.upcall = upcall
        self._heard: asyncio.Queue[str] = asyncio.Queue()

    async def sink(self, stream: str, data: bytes) -> None:
        """Pass output on, at the pace of its reader inside."""
        self.behind += 1
        try:
            await self.upcall.write(data, stream)
        finally:
            self.behind -= 1

    async def source(self) -> AsyncIterator[bytes]:
        """Yield the shim's input."""
        while data := await self.upcall.read():
            yield data

    async def hear(self, running: asyncio.Future[Any]) -> None:
        """Receive signals: one that comes before the command runs cancels it."""
        async for name in self.upcall.signals():
            if self.started and name in _PASSED_ON and self._heard.qsize() < _MANY_SIGNALS:
                self._heard.put_nowait(name)
            elif not self.started and name in _ENDS:
                running.cancel()

    async def signals(self) -> AsyncIterator[str]:
        """Yield the signals for the command."""
        while True:
            yield await self._heard.get()


def _parse(upcall: Upcall) -> tuple[tuple[str, ...], str | None]:
    """Parse a shim's request, which any program inside may have sent."""
    said = upcall.question
    if not said.count(b"\0"):
        raise ValueError("argv is empty")
    # Counted before it is split: an empty word is one byte of the request, and fifty in memory.
    if said.count(b"\0") > _MOST_WORDS or len(said) - said.index(b"\0") > _LONGEST:
        raise ValueError("argv is too long for one command")
    cwd, *argv = said.decode("utf-8", "surrogateescape").split("\0")
    return tuple(argv), cwd or None


def _reply(upcall: Upcall, result: ToolResult) -> None:
    if result.error is not None:
        upcall.reply(error={"code": result.error.code, "message": result.error.message})
    else:
        upcall.reply(exit_code=result.exit_code)
