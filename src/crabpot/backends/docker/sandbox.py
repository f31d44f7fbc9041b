"""A live sandbox: its stream, freezing and ending it, and the limit that struck in it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker.engine import EngineError
from crabpot.backends.docker.removal import remove
from crabpot.backends.linux.limits import amount
from crabpot.errors import SandboxLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.docker.counters import Counters
    from crabpot.backends.docker.engine import Engine
    from crabpot.settings import Limits
    from crabpot.wire.channel import Channel

_FREEZE_TIMEOUT_S = 5.0
# The answer to a call in the sandbox waits for this.
_LAST_WORDS_S = 1.0


class DockerSandbox:
    """A sandbox of docker's. Its main process is the runner: when that ends, the engine ends everything in it."""

    def __init__(  # noqa: PLR0913  all that an opening leaves to be looked after
        self,
        engine: Engine,
        container: str,
        channel: Channel,
        hello: Mapping[str, Any],
        *,
        counters: Counters,
        limits: Limits,
    ) -> None:
        self.channel = channel
        self.container = container
        self.hello = hello
        self.pid = counters.pid or None
        self._engine = engine
        self._counters = counters
        self._limits = limits
        self._asked = False
        self._renaming: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return the code and sentence of a limit that struck since this was last asked, where the kernel shows it."""
        hit = self._counters.new() or await self._last_words()
        if "memory" in hit:
            total = amount(self._limits.memory)
            return "memory_limit", f"the sandbox used more than its {total} of memory (limits.memory)"
        if "pids" in hit:
            return "process_limit", f"the sandbox had more than its {self._limits.pids} processes (limits.pids)"
        return None

    async def _last_words(self) -> set[str]:
        """Ask the engine what a container died of, once and immediately: it is about to forget it."""
        if not self._counters.gone or self._asked:
            return set()
        self._asked = True
        try:
            said = await self._engine.get(f"/containers/{self.container}/json", timeout_s=_LAST_WORDS_S)
            return {"memory"} if said["State"]["OOMKilled"] is True else set()
        except (EngineError, KeyError, TypeError):
            return set()

    async def freeze(self) -> None:
        """Stop all its processes until `thaw`; SandboxLost if that cannot be done in time."""
        try:
            await self._engine.post(f"/containers/{self.container}/pause", timeout_s=_FREEZE_TIMEOUT_S)
        except EngineError as error:
            raise SandboxLost(f"the sandbox could not be frozen: {error}") from None

    async def thaw(self) -> None:
        """Let its processes continue; SandboxLost if they cannot."""
        try:
            await self._engine.post(f"/containers/{self.container}/unpause", timeout_s=_FREEZE_TIMEOUT_S)
        except EngineError as error:
            raise SandboxLost(f"the sandbox could not be thawed: {error}") from None

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        """Return that there is nothing to remount: a copy does not follow the host."""
        return False

    def rename(self, name: str) -> None:
        """Show it by the name of its new scope, soon: the call that took it does not wait for the engine.

        What cannot be renamed keeps its name. Its labels stay: an engine changes none of them.
        """
        self._renaming = asyncio.create_task(self._rename(name))

    async def _rename(self, name: str) -> None:
        with contextlib.suppress(EngineError):
            await self._engine.post(f"/containers/{self.container}/rename", {"name": name})

    async def close(self) -> None:
        """End every process of it and leave nothing behind; safe to call twice, also concurrently."""
        if self._closing is None:
            self.channel.sock.close()
            self._closing = asyncio.create_task(self._remove())
        await asyncio.shield(self._closing)

    async def _remove(self) -> None:
        if self._renaming is not None:
            await self._renaming
        await remove(self._engine, self.container)
