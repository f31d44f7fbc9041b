"""A stand-in for the gateway's end of a sandbox, and what a process leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crabpot.backends.linux import freezing
from crabpot.runner.core.frames import FrameReader, encode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.backends.base import Sandbox
    from crabpot.backends.bubblewrap.backend import Bubblewrap
    from crabpot.backends.bubblewrap.sandbox import BubblewrapSandbox
    from crabpot.spec.spec import SandboxSpec

PATIENCE_S = 30.0


class Stream:
    """The wire to a runner, one call at a time."""

    def __init__(self, box: Sandbox) -> None:
        self._socket = box.channel.sock
        self._reader = FrameReader()
        self._frames: list[dict[str, Any]] = []

    async def greet(self, box: Sandbox) -> dict[str, Any]:
        """Say hello, and return the runner's answer."""
        await self.send(dict(box.hello))
        return await self.receive()

    async def send(self, frame: dict[str, Any]) -> None:
        """Send one frame."""
        await asyncio.get_running_loop().sock_sendall(self._socket, encode(frame))

    async def receive(self) -> dict[str, Any]:
        """Wait for one frame; EOFError when the sandbox is gone."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._frames:
                data = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 20)
                if not data:
                    raise EOFError("the sandbox is gone")
                self._frames += [header for header, _ in self._reader.feed(data)]
        return self._frames.pop(0)

    async def start(self, command: str, call_id: str = "1") -> None:
        """Start a command without waiting for it."""
        await self.send({"id": call_id, "tool": "exec", "args": {"command": command}, "timeout": PATIENCE_S})

    async def run(self, command: str) -> dict[str, Any]:
        """Run a command to its end."""
        await self.start(command)
        return await self.receive()

    async def shell(self, command: str) -> str:
        """Run a command, and return what it printed on both streams."""
        result = await self.run(command)
        return f"{result['stdout']}{result['stderr']}"


@contextlib.asynccontextmanager
async def sandbox(backend: Bubblewrap, spec: SandboxSpec) -> AsyncIterator[tuple[BubblewrapSandbox, Stream]]:
    """Open a sandbox, greet its runner, and close it at the end."""
    box = await backend.open(spec)
    try:
        stream = Stream(box)
        ready = await stream.greet(box)
        assert ready["op"] == "ready", ready
        yield box, stream
    finally:
        await box.close()


def below(first: int) -> list[int]:
    """Return a process and all that descend from it."""
    return [one.pid for one in freezing.below(first)]


def is_dead(pid: int) -> bool:
    """Return whether a process runs no more; who is to reap it may take their time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def eventually(what: str, pids: list[int]) -> None:
    """Wait until processes run no more, or fail."""
    deadline = time.monotonic() + 20
    while not all(is_dead(pid) for pid in pids):
        assert time.monotonic() < deadline, f"{what} still runs: {[pid for pid in pids if not is_dead(pid)]}"
        time.sleep(0.01)


def children() -> set[int]:
    """Return the processes whose parent is this one, zombies included."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    found.add(int(name))
    return found


def open_files() -> dict[int, str]:
    """Return this process's descriptors, but for the one that the listing uses."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def control_groups(pid: int) -> list[str]:
    """Return the control groups that this process's gateways made and did not remove."""
    return [
        os.path.join(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(f"crabpot-{pid}-")
    ]
