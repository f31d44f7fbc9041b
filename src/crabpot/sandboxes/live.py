"""One live sandbox: what it was opened for, the wire to its runner, and freezing and ending it."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self

from crabpot.errors import SandboxLost
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.backends.base import Clause, Sandbox
    from crabpot.decide.scope import Scope
    from crabpot.egress.authority import Authority
    from crabpot.sandboxes.ports import Ports
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.calls import RunnerWire

    # A place and what shares it: no session can be named so that it finds the host's runner.
    Key = tuple[Place, str]

_SETTLE_S = 5.0
# Between the calls of a busy agent nobody waits for a remount.
_UNCHANGED_S = 1.0
# A sandbox that is not ready by then never will be.
START_S = 20.0


class Hold(Protocol):
    """What keeps a sandbox's private folder or layer its own until it has ended."""

    def release(self) -> None:
        """Release it; safe to call twice."""

    def abandon(self) -> None:
        """Release it because its sandbox was not used, and remove it if it is empty."""

    def renew(self) -> None:
        """Note that from now on the sandbox sees the host's folder as it is."""

    def look(self) -> None:
        """Note what changed in a layer since the last look."""


def identity_of(folder: str | None) -> tuple[int, int] | None:
    """Return the device and inode of a folder of the host; None where there is none."""
    try:
        found = None if folder is None else os.stat(folder)
    except OSError:
        return None
    return found and (found.st_dev, found.st_ino)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a call needs: whose sandbox, and in which version."""

    key: Key
    # The family of its spec, since the key says the rest; on the host the agent's workspace.
    version: str
    agent: AgentSettings
    # None on the host.
    spec: SandboxSpec | None = None

    @property
    def folder(self) -> str | None:
        """The host's folder that the agent works in; None where Crabpot keeps a private one."""
        if self.spec is None:
            return self.version
        return self.spec.agent_workspace if self.spec.private else self.spec.workspace

    @classmethod
    def of(cls, spec: SandboxSpec, agent: AgentSettings) -> Self:
        """Return what a call of this agent needs where its scope has this spec."""
        return cls(key=(Place.SANDBOX, spec.scope_key), version=spec.family, agent=agent, spec=spec)

    @property
    def reaching_nothing(self) -> str:
        """The version without the places that it may reach, which the gateway keeps outside."""
        if self.spec is None:
            return self.version
        return replace(self.spec, network=replace(self.spec.network, allow=(), raw=(), ask=False)).hash


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """A sandbox whose runner was greeted and is ready."""

    wanted: Wanted
    sandbox: Sandbox
    wire: RunnerWire
    # What keeps its private folder from being pruned, or its layer its own, where it has one.
    held: Hold | None = None
    # Who answers for its upcalls; neither a place on the host nor a spare has one.
    scope: Scope | None = None
    # Who vouches inside for the hosts whose TLS ends at the gateway.
    authority: Authority | None = None
    # How this machine keeps what its spec promises; nothing is promised of a place on the host.
    clauses: tuple[Clause, ...] = ()
    # Which folder of the host it was opened on: another one may have its name by now.
    folder: tuple[int, int] | None = None
    # The ports inside that this machine may reach.
    ports: Ports | None = None
    # Why the gateway itself ended it: a code and a sentence.
    ended_by: tuple[str, str] | None = None
    # Whether the call that it was opened for has it: until then it looks idle, and is not.
    taken: bool = False
    # A process in the background may still run, and no call is in flight for it.
    left_running: bool = False
    # How many of the calls in flight only keep something ready, such as an MCP server that nobody calls now.
    standing: int = 0
    started: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    # When its last call ended.
    rested: float = field(default_factory=time.time)
    # What it can write on the host, without links: the mounts in it stay where they led when it opened.
    _roots: tuple[str, ...] | None = None
    _freezes: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def key(self) -> Key:
        """The key it is found by."""
        return self.wanted.key

    @property
    def agent(self) -> str:
        """The id of the agent whose it is."""
        return self.wanted.agent.id

    @property
    def replaced(self) -> bool:
        """Whether the host's folder is another one now: removed, moved away, or made anew under its name."""
        if self.folder is None:
            return False
        path = self.wanted.folder
        return path is not None and identity_of(path) != self.folder

    @property
    def lost(self) -> bool:
        """Whether it stopped answering."""
        return self.wire.lost is not None

    @property
    def busy(self) -> bool:
        """Whether somebody waits for a call in it."""
        return self.wire.busy > self.standing

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it, is about to, or was left running, and nobody needs it frozen."""
        awaited = not self.taken and time.time() - self.started < START_S
        return not (self.busy or awaited or self.left_running or self._freezes)

    async def settle(self) -> None:
        """Find out whether what was left running still runs. Only the agent's own work depends on the answer."""
        if not self.left_running or self.wire.busy:
            return
        with suppress(SandboxLost):
            reply = await self.wire.call("process", {"action": "list"}, timeout_s=_SETTLE_S)
            listed = (reply.data or {}).get("processes")
            known = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
            self.left_running = not reply.success or any(one.get("running") is not False for one in known)

    def can_reach(self, folder: str) -> bool:
        """Return whether it can change something in a folder of the host, or above it: a program looks there too.

        The folder's path has no links: every sandbox is asked about the same one.
        """
        if self._roots is None:
            spec = self.wanted.spec
            self._roots = () if spec is None else tuple(map(os.path.realpath, spec.writes))
        return any(os.path.commonpath([root, folder]) in (root, folder) for root in self._roots)

    def assign(self, wanted: Wanted) -> None:
        """Make a spare the sandbox of a scope; its age counts from now."""
        self.wanted = wanted
        self._roots = None
        self.started = self.used = time.time()

    async def freeze(self) -> None:
        """Stop everything in it until it was thawed as often; SandboxLost if that cannot be done."""
        async with self._turn:
            self._freezes += 1
            if self._freezes == 1:
                self.wire.freeze()
                await self.sandbox.freeze()

    async def thaw(self) -> None:
        """Let it go on, unless somebody else froze it too; SandboxLost if it cannot."""
        async with self._turn:
            self._freezes -= 1
            if self._freezes == 0:
                await self.sandbox.thaw()
                self.wire.thaw()

    @property
    def reviewed(self) -> bool:
        """Whether it works on a layer over the host's folder."""
        return self.wanted.spec is not None and self.wanted.spec.layer is not None

    async def catch_up(self) -> None:
        """Show what the host may have changed in a folder under review while nothing ran in it."""
        if self.wire.busy or time.time() - self.rested <= _UNCHANGED_S:
            return
        self.rested = time.time()
        if await self.sandbox.remount() and self.held is not None and not self.left_running:
            # What runs in the background may still hold what it saw before.
            await asyncio.to_thread(self.held.renew)

    async def bring_back(self) -> None:
        """Have its layer hold what it wrote, wherever it is; SandboxLost if that cannot be known."""
        if self.reviewed:
            await self.sandbox.bring_back()

    async def end(self) -> None:
        """End it and everything in it, then let go of its private folder."""
        if self.ports is not None:
            self.ports.close()
        self.wire.lose("it was closed")
        await self.wire.upcalls.ended()
        try:
            await self.sandbox.close()
        finally:
            if self.held is not None and self.reviewed:
                # In a thread: it looks at what the agent wrote.
                await asyncio.to_thread(self.held.release)
            elif self.held is not None:
                self.held.release()

    async def end_when_quiet(self) -> None:
        """Let the calls in it finish before it ends."""
        if self.busy:
            await self.wire.quiet()
        await self.end()
