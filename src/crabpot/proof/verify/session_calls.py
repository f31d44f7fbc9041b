"""The tool calls of an attacked session, made as its agent makes them, within what this machine needs for each."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import TYPE_CHECKING, Any

from crabpot.decide import placement, sessions
from crabpot.proof.verify.claims import NotCarriedOut, Outcome
from crabpot.proof.verify.programs import program, read_report
from crabpot.spec import hardening
from crabpot.spec.seccomp.numbers import numbers

if TYPE_CHECKING:
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.proof.verify.programs import Report
    from crabpot.settings import AgentSettings, Limits

_TIMEOUT_S = 20.0
# What prepares an attack is many small programs, and says nothing about limits.
_PREPARING_S = 60.0
# An interpreter inside starts in less on most machines; one that is emulated takes ten times as long.
_USUAL_S, _SLOWEST = 0.2, 20.0
_LINE_S, _LINE_POLL_S = 10.0, 0.05


class SessionCalls:
    """A session of a gateway, and the calls that its agent makes."""

    def __init__(self, gateway: Gateway, session: str) -> None:
        self.gateway = gateway
        self.session = session
        key = sessions.parse(session, default_agent=gateway.settings.default_agent)
        self.agent: AgentSettings = gateway.settings.agent(key.agent)
        self._placed = placement.decide(key, self.agent).answer
        # How many times slower than usual this machine is: what an attack may take follows it.
        self.pace = 1.0

    @property
    def limits(self) -> Limits:
        """Return what the sandbox may use."""
        return self.agent.sandbox.limits

    async def measure(self) -> None:
        """Find out how slow this machine is, by how long an interpreter takes to start inside; once it is warm."""
        took = _USUAL_S
        for _ in range(2):
            began = time.monotonic()
            if not (await self.shell("exec python3 -I -c pass", timeout_s=self.paced(_TIMEOUT_S))).success:
                return
            took = time.monotonic() - began
        self.pace = min(max(took / _USUAL_S, self.pace), _SLOWEST)

    def paced(self, usual_s: float) -> float:
        """Return how long this machine may take for what usually takes so long, within what a call may ask for."""
        return min(usual_s * self.pace, self.limits.time_ceiling)

    async def call(self, tool: str, **args: Any) -> ToolResult:
        """Call a tool as the agent would."""
        return await self.gateway.call(self.session, tool, args)

    async def shell(self, command: str, *, timeout_s: float | None = None, **args: Any) -> ToolResult:
        """Run shell text inside, for as long as this machine may take, or as is said."""
        limit_s = self.paced(_TIMEOUT_S) if timeout_s is None else timeout_s
        return await self.call("exec", command=command, timeout=limit_s, **args)

    async def must_run(self, command: str, **args: Any) -> str:
        """Run shell text that prepares an attack, and return what it printed; if it fails there is no attack."""
        args.setdefault("timeout_s", self.paced(_PREPARING_S))
        # Not by a shim: what prepares an attack on git is made by the sandbox's own.
        result = await self.shell(f"PATH=${{PATH#{hardening.SHIMS}:}}; {command}", **args)
        if not result.success:
            said = result.error.message if result.error else result.stderr.strip()
            raise NotCarriedOut(f"`{command:.60}` failed inside: {said:.200}")
        return result.stdout

    async def program(
        self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any
    ) -> ToolResult:
        """Run a hostile program inside, whatever becomes of it."""
        timeout_s = self.paced(timeout_s)
        text = program(source, {"numbers": dict(numbers(platform.machine())), **given})
        if not tty:
            return await self.shell("exec python3 -I -", timeout_s=timeout_s, stdin=text)
        # On a terminal only a key ends the input, and it would echo the program back.
        await self.call("write", path=".hostile.py", content=text)
        return await self.shell("exec python3 -I .hostile.py", timeout_s=timeout_s, tty=True)

    async def python(self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any) -> Report:
        """Run a hostile program that must live to report."""
        return read_report(await self.program(source, timeout_s=timeout_s, tty=tty, **given))

    async def attack(self, source: str, *, timeout_s: float = _TIMEOUT_S, tty: bool = False, **given: Any) -> Outcome:
        """Run a hostile program; the claim holds if it gained nothing."""
        report = await self.python(source, timeout_s=timeout_s, tty=tty, **given)
        return Outcome(held=report.got is None, tried=report.tried, came_back=report.got or report.refused)

    async def start(self, command: str) -> str:
        """Start a background process that an attack needs, and return its id."""
        started = await self.call("exec", command=command, background=True)
        if not started.success or started.data is None:
            raise NotCarriedOut(f"`{command:.60}` did not start inside: {started.error}")
        return str(started.data["process"])

    async def line_from(self, process: str) -> str:
        """Wait for the first line that a background process prints."""
        said = ""
        deadline = time.monotonic() + self.paced(_LINE_S)
        while True:
            polled = await self.call("process", action="poll", id=process)
            said += polled.stdout
            if said.endswith("\n"):
                return said.strip()
            if not polled.data or not polled.data.get("running") or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LINE_POLL_S)
        raise NotCarriedOut(f"a background process printed nothing: {polled.stderr.strip()[-200:]}")

    async def end(self, process: str) -> None:
        """End a background process."""
        await self.call("process", action="kill", id=process)

    async def answers(self) -> bool:
        """Return whether the sandbox still answers calls."""
        result = await self.shell("echo alive", timeout_s=self.paced(10.0))
        return result.success and result.stdout == "alive\n"
