"""A live sandbox: its stream, freezing and ending it, and the limit that struck, by its control group."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from crabpot.backends.linux import freezing, processes
from crabpot.backends.linux.limits import amount
from crabpot.errors import SandboxLost
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Mapping

    from crabpot.backends.bubblewrap.fork_server import ForkServer
    from crabpot.backends.linux import cgroups
    from crabpot.settings import Limits

_END_TIMEOUT_S = 10.0
_FREEZE_TIMEOUT_S = 5.0
_POLL_S = 0.002
# A process still in uninterruptible sleep after so many looks waits for one that is stopped.
_WAITING_ROUNDS = 25


class BubblewrapSandbox:
    """A sandbox of bubblewrap's. Its first process is the runner: when that ends, the kernel ends everything in it."""

    def __init__(  # noqa: PLR0913  all that an opening leaves to be looked after
        self,
        stream: socket.socket,
        hello: Mapping[str, Any],
        limits: Limits,
        *,
        monitor: subprocess.Popen[bytes] | None,
        pid: int,
        pidfd: int,
        overlay: str | None = None,
        group: cgroups.Cgroup | None,
        server: ForkServer | None = None,
    ) -> None:
        self.channel = Channel(sock=stream)
        self.hello = hello
        self.pid = pid
        self._limits = limits
        self._monitor = monitor
        self._pidfd = pidfd
        self._overlay = overlay
        self._group = group
        self._server = server
        # Whether all its processes were seen to be stopped, by signals.
        self._stopped = False
        self._hits: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._closing: asyncio.Future[None] | None = None

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return the code and sentence of a limit that struck since this was last asked, where that can be known."""
        self._count()
        struck = {name for name, count in self._hits.items() if count > self._told.get(name, 0)}
        self._told = dict(self._hits)
        if "memory" in struck:
            total = amount(self._limits.memory)
            return "memory_limit", f"the sandbox used more than its {total} of memory (limits.memory)"
        if "pids" in struck:
            return (
                "process_limit",
                f"the sandbox had more than its {self._limits.pids} processes (limits.pids)",
            )
        return None

    def _count(self) -> None:
        if self._group is not None:
            self._hits |= self._group.hits()

    async def freeze(self) -> None:
        """Stop all its processes until `thaw`; SandboxLost if that cannot be done in time."""
        try:
            async with asyncio.timeout(_FREEZE_TIMEOUT_S):
                if self._group is not None and self._group.set_frozen(frozen=True):
                    while not self._group.is_frozen():
                        await asyncio.sleep(_POLL_S)
                        # Control groups of the first version miss a process that was about to wait for its vfork,
                        # until they are asked again.
                        self._group.set_frozen(frozen=True)
                else:
                    await self._stop()
        except TimeoutError:
            await self.thaw()
            raise SandboxLost("the sandbox could not be frozen") from None

    async def _stop(self) -> None:
        waiting = 0
        if self._lives():
            freezing.begin_stopping(self.pid)
        while self._lives() and waiting < _WAITING_ROUNDS:
            left = freezing.stop(self.pid)
            if not left:
                self._stopped = True
                return
            waiting = waiting + 1 if left == {"D"} else 0
            await asyncio.sleep(_POLL_S)

    async def thaw(self) -> None:
        """Let its processes continue."""
        if (self._group is None or not self._group.set_frozen(frozen=False)) and self._lives():
            freezing.go_on(self.pid, all_stopped=self._stopped)
            self._stopped = False

    def _lives(self) -> bool:
        """Return whether its first process still lives: a pid that was reused may be anybody's."""
        return self._closing is None and not processes.has_ended(self._pidfd)

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        """Have a folder under review show what the host changed; return whether there is one and it does."""
        if self._overlay is None or not self._lives():
            return False
        from crabpot.backends.bubblewrap.remount import remount  # noqa: PLC0415  most sandboxes have no overlay

        # Who made the mounts: over them the sandbox itself has no power where a fork server did.
        maker = self._pidfd if self._server is None else self._server.pidfd
        return await remount(maker, self._pidfd, self._overlay) is None

    def rename(self, name: str) -> None:
        """Do nothing: no name of it is seen."""

    async def close(self) -> None:
        """End every process of it and leave nothing behind; safe to call twice, also concurrently."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        try:
            self._kill()
            async with asyncio.timeout(_END_TIMEOUT_S):
                if self._monitor is None:
                    await processes.readable(self._pidfd)
                else:
                    await processes.ended(self._monitor)
        except TimeoutError:
            pass
        finally:
            await self._finish()

    def _kill(self) -> None:
        self.channel.sock.close()
        if self._group is not None:
            # Control groups of the first version hold back even SIGKILL while frozen.
            self._group.set_frozen(frozen=False)
        # The first process of a pid namespace: the rest has ended before its parent learns of its end.
        processes.send_signal(self._pidfd, signal.SIGKILL)

    async def _finish(self) -> None:
        if self._monitor is not None:
            processes.kill(self._monitor)
        os.close(self._pidfd)
        self._count()  # The cause of death is asked for later, when the group is gone.
        group, self._group = self._group, None
        try:
            if group is not None:
                async with asyncio.timeout(_END_TIMEOUT_S):
                    while not group.remove():  # noqa: ASYNC110  as above
                        await asyncio.sleep(_POLL_S)
        except TimeoutError:
            pass  # The next gateway on this machine reaps it.
        finally:
            if self._closing is not None and not self._closing.done():
                self._closing.set_result(None)
