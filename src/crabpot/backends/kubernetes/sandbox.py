"""A live sandbox: its stream, freezing and ending it, and the limit that struck in it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import naming, network
from crabpot.backends.kubernetes.errors import ClusterError
from crabpot.backends.linux.limits import amount
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.backends.kubernetes.opening import Opened
    from crabpot.settings import Limits

_FREEZE_S = 10.0
# The answer to a call in the sandbox waits for this.
_LAST_WORDS_S = 2.0


class PodSandbox:
    """A sandbox in a pod. Its runner ends with its stream, and the pod with its runner."""

    # Another machine's kernel runs it.
    pid = None

    def __init__(
        self, opened: Opened, hello: Mapping[str, Any], limits: Limits, released: Callable[[], Awaitable[None]]
    ) -> None:
        self.channel = Channel(sock=opened.stream.sock)
        self.hello = hello
        self.pod = opened.pod
        self._opened = opened
        self._limits = limits
        self._released = released
        self._killed = 0
        self._renaming: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return the code and sentence of a limit that struck since this was last asked."""
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                struck = await self._struck()
        except (ClusterError, SandboxUnavailable, TimeoutError):
            return None
        if struck is None:
            return None
        return struck, {
            "memory_limit": f"the sandbox used more than its {amount(self._limits.memory)} of memory (limits.memory)",
            "disk_limit": f"the sandbox used more than its {amount(self._limits.disk)} of disk (limits.disk)",
        }[struck]

    async def _struck(self) -> str | None:
        connection = self._opened.connection
        if self._opened.stream.ended is None:
            killed = int((await network.told(connection, self.pod, "struck")).get("killed") or 0)
            new, self._killed = killed > self._killed, killed
            return "memory_limit" if new else None
        pod = await connection.cluster.get(connection.path("pods", self.pod))
        status = pod.get("status") or {}
        if status.get("reason") == "Evicted":
            return "disk_limit"
        ended = [(one.get("state") or {}).get("terminated") or {} for one in status.get("containerStatuses") or ()]
        return "memory_limit" if any(one.get("reason") == "OOMKilled" for one in ended) else None

    async def freeze(self) -> None:
        """Stop all its processes until `thaw`; SandboxLost if that cannot be done in time."""
        await self._signal("stop", "frozen")

    async def thaw(self) -> None:
        """Let its processes continue; SandboxLost if they cannot."""
        await self._signal("cont", "thawed")

    async def _signal(self, action: str, done: str) -> None:
        try:
            said = await network.told(self._opened.connection, self.pod, action, timeout_s=_FREEZE_S)
        except (ClusterError, SandboxUnavailable) as error:
            raise SandboxLost(f"the sandbox could not be {done}: {error}") from None
        if said.get("stopped") is False:
            raise SandboxLost(f"the sandbox could not be {done}: something in it goes on")

    async def bring_back(self) -> None:
        """Have the layer on this machine hold what is in the pod; SandboxLost if that cannot be known."""
        if self._opened.mirror is not None:
            await self._opened.mirror.bring_back()

    async def remount(self) -> bool:
        """Return that there is nothing to remount: a copy does not follow the host."""
        return False

    def rename(self, name: str) -> None:
        """Label it with the name of its new scope, soon: the call that took it does not wait for the cluster."""
        self._renaming = asyncio.create_task(self._label(name))

    async def _label(self, name: str) -> None:
        connection, patch = self._opened.connection, "application/merge-patch+json"
        body = {"metadata": {"labels": {naming.SCOPE: name}}}
        with contextlib.suppress(ClusterError):
            await connection.cluster.request("PATCH", connection.path("pods", self.pod), body=body, kind=patch)

    async def close(self) -> None:
        """End every process of it and leave nothing behind; safe to call twice, also concurrently."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._remove())
        await asyncio.shield(self._closing)

    async def _bring_back_last(self) -> None:
        """Have what was written since the last call too, while nothing writes any more."""
        if self._opened.mirror is None or self._opened.stream.ended is not None:
            return
        with contextlib.suppress(SandboxLost):
            await self.freeze()
        with contextlib.suppress(SandboxLost):
            await self.bring_back()

    async def _remove(self) -> None:
        if self._renaming is not None:
            await self._renaming
        try:
            await self._bring_back_last()
            await self._opened.close()
        finally:
            await self._released()
