"""Runners: real ones, unconfined, and doubles that follow a script on the wire."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from crabpot.backends.host.backend import open_on_host
from crabpot.errors import SandboxLost
from crabpot.runner.core.frames import FrameReader, encode
from crabpot.settings import Limits, Size
from crabpot.wire.calls import RunnerWire
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

OUTPUT = 64 * 1024
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "USER": "agent", "LANG": "C.UTF-8"}


class Peer:
    """The runner's end of a wire, for a double that says whatever it likes on it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = FrameReader()
        self._frames: list[tuple[dict[str, Any], bytes]] = []

    def take(self, op: str | None = None) -> tuple[dict[str, Any], bytes]:
        """Wait for the next frame of a kind; calls have none."""
        while True:
            header, payload = self.take_any()
            if header.get("op") == op:
                return header, payload

    def take_any(self) -> tuple[dict[str, Any], bytes]:
        """Wait for the next frame."""
        while not self._frames:
            data = self.sock.recv(1 << 20)
            if not data:
                raise ConnectionError("the gateway cut it off")
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def send(self, header: Any, payload: bytes = b"") -> None:
        self.sock.sendall(encode(header, payload))

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def greet(self) -> None:
        self.take("hello")
        self.send({"op": "ready", "protocol": 1, "pid": 1, "python": "3.11.2", "uid": 1})


class Double:
    """A sandbox whose runner is a thread that follows a script. It stays until the gateway has cut it off."""

    def __init__(self, script: Callable[[Peer], None], *, output: int = OUTPUT) -> None:
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        self.channel = Channel(sock=ours)
        self.hello: dict[str, Any] = {"op": "hello", "limits": {"output": output}}
        self.script = script
        self.closed = 0
        self.pid = None
        self.death: tuple[str, str] | None = None
        self.frozen: list[bool] = []
        self.unfreezable = self.unthawable = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._theirs, suppress(OSError):
            self.script(Peer(self._theirs))
            while self._theirs.recv(1 << 20):
                pass

    async def close(self) -> None:
        self.closed += 1
        self.channel.sock.close()
        await asyncio.to_thread(self.thread.join, 20)
        assert not self.thread.is_alive()

    async def freeze(self) -> None:
        self.frozen.append(True)
        if self.unfreezable:
            raise SandboxLost("it does not freeze")

    async def thaw(self) -> None:
        self.frozen.append(False)
        if self.unthawable:
            raise SandboxLost("it does not thaw")

    async def cause_of_death(self) -> tuple[str, str] | None:
        return self.death

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        return False

    def rename(self, name: str) -> None:
        pass


def answering(peer: Peer) -> None:
    """The script of an honest runner that has one answer to everything."""
    peer.greet()
    answering_after_greeting(peer)


def answering_after_greeting(peer: Peer) -> None:
    """What follows of it."""
    while True:
        header, _ = peer.take()
        peer.send({"id": header["id"], "success": True, "stdout": "fine\n", "stderr": "", "exit_code": 0})


@asynccontextmanager
async def connected(opened: Any, *, grace_s: float = 5.0, timeout_s: float = 20.0) -> AsyncIterator[RunnerWire]:
    """Connect a wire to a sandbox, and leave neither."""
    try:
        wire = await RunnerWire.connect(opened.channel, opened.hello, timeout_s=timeout_s, grace_s=grace_s)
        try:
            yield wire
        finally:
            wire.lose("the test ended")
    finally:
        await opened.close()


@asynccontextmanager
async def real_runner(folder: Path, *, output: int = OUTPUT, grace_s: float = 20.0) -> AsyncIterator[RunnerWire]:
    """Connect a wire to the real runner, unconfined."""
    opened = await open_on_host(str(folder), Limits(output=Size(output)), ENV)
    async with connected(opened, grace_s=grace_s) as wire:
        yield wire


class Unconfined:
    """A backend that starts the real runner and confines nothing: what is tested here is who talks to it."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.death: tuple[str, str] | None = None

    async def _cause_of_death(self) -> tuple[str, str] | None:
        return self.death

    async def probe(self, _spec: Any) -> tuple[()]:
        return ()

    async def mechanism(self, _spec: Any) -> Any:
        return "copy"

    async def open(self, spec: Any) -> Any:
        made = await open_on_host(spec.workspace, spec.limits, ENV)
        made.cause_of_death = self._cause_of_death  # type: ignore[method-assign]
        self.opened.append(made)
        return made

    async def close(self) -> None:
        """Keep nothing."""


class Scripted(Unconfined):
    """A backend whose every sandbox follows the script."""

    def __init__(self, script: Callable[[Peer], None]) -> None:
        super().__init__()
        self.script = script

    async def open(self, _spec: Any) -> Any:
        made = Double(self.script)
        self.opened.append(made)
        return made
