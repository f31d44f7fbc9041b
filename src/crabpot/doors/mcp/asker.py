"""Choose the call through which to ask a client: the one that the request is about, else the latest."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.decide import commands

if TYPE_CHECKING:
    from crabpot.approvals.requests import Answer, Request
    from crabpot.doors.mcp.running import Running
    from crabpot.doors.mcp.server import Caller


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """The running calls, through which their clients can be asked. Each client is asked only about its own session."""

    _running: list[Running] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)

    def follow(self, running: Running) -> None:
        """Allow asking through this call until it ends."""
        self._running.append(running)
        running.task.add_done_callback(lambda _: self._running.remove(running))

    async def ask(self, caller: Caller, request: Request) -> Answer | None:
        """Ask the caller; return None if it has no call to ask through, or is already being asked.

        Each request goes to every call of its sandbox.
        """
        chosen = self._choose(caller, request)
        if chosen is None or request.id in self._asked:
            return None
        self._asked.add(request.id)
        try:
            return await chosen.ask(request)
        finally:
            self._asked.discard(request.id)

    def _choose(self, caller: Caller, request: Request) -> Running | None:
        able = [one for one in self._running if one.caller == caller and one.can_be_asked]
        about = [one for one in able if _argv(one.args.get("command")) == request.argv]
        return next(reversed(about or able), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """An approver that asks one caller through whichever of its calls is running."""

    clients: Clients
    caller: Caller

    async def ask(self, request: Request) -> Answer | None:
        """Ask the caller."""
        return await self.clients.ask(self.caller, request)


@dataclass(frozen=True, slots=True)
class Announced:
    """An approver that tells a client that its call waits, and leaves the answer to others."""

    running: Running

    async def ask(self, request: Request) -> Answer | None:
        """Announce it, and wait until somebody has answered."""
        await self.running.announce(request)
        await asyncio.Event().wait()
        return None


def _argv(command: Any) -> tuple[str, ...] | None:
    try:
        return commands.parse(command).argv if isinstance(command, str) else None
    except commands.NotSimple:
        return None
