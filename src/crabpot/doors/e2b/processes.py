"""The processes that programs started in a sandbox: each is one call of `exec`, which outlives the request for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from crabpot.doors.e2b.refusals import RpcError, failure_of
from crabpot.doors.http.access.refusals import Refusal
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes
    from crabpot.model import ToolResult

    Event = tuple[str, bytes]

MOST = 256
_AHEAD = 16


class Input:
    """What a process reads: pieces from any number of requests, at its own pace."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._ended = False

    async def write(self, data: bytes) -> None:
        """Add a piece, once the process has taken the one before."""
        if self._ended:
            raise RpcError("failed_precondition", "the process takes no more input")
        if data:
            await self._pieces.put(data)

    async def end(self) -> None:
        """End the input."""
        if not self._ended:
            self._ended = True
            await self._pieces.put(None)

    async def source(self) -> AsyncIterator[bytes]:
        """Yield the pieces."""
        while (piece := await self._pieces.get()) is not None:
            yield piece

    def close(self) -> None:
        """Let nobody wait who still writes: the process is gone."""
        self._ended = True
        while not self._pieces.empty():
            self._pieces.get_nowait()


class Listener:
    """One request that is sent the output of a process, from when it came on."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(_AHEAD)
        self._left = False

    async def put(self, event: Event | None) -> None:
        """Add what happened, once there is room."""
        if not self._left:
            await self._events.put(event)

    def leave(self) -> None:
        """Listen no more; whoever waits, to be heard or to hear, goes on."""
        self._left = True
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(None)

    async def next(self, timeout_s: float | None) -> Event | None:
        """Return the next event, None at the end; TimeoutError if there is none in time."""
        async with asyncio.timeout(timeout_s):
            return await self._events.get()


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """One running command."""

    pid: int
    config: dict[str, Any]
    tag: str | None
    tty: bool
    input: Input | None
    resizes: asyncio.Queue[tuple[int, int]] = field(default_factory=lambda: asyncio.Queue(4))
    listeners: list[Listener] = field(default_factory=list)
    task: asyncio.Task[ToolResult] | None = None
    killed: bool = False

    def listen(self) -> Listener:
        """Return one more who is sent the output."""
        self.listeners.append(made := Listener())
        return made

    def leave(self, listener: Listener) -> None:
        """Send it nothing more."""
        self.listeners.remove(listener)
        listener.leave()

    async def tell(self, event: Event | None) -> None:
        """Send an event to all who listen, at the pace of the slowest."""
        for listener in list(self.listeners):
            await listener.put(event)

    async def sink(self, stream: str, data: bytes) -> None:
        """Take output."""
        await self.tell(("pty" if self.tty else stream, data))

    def kill(self) -> None:
        """End it, and all that it started."""
        self.killed = True
        if self.task is not None:
            self.task.cancel()

    def ended(self) -> dict[str, Any] | RpcError:
        """Return how it ended: an event, or why there is none."""
        assert self.task is not None
        if self.killed or self.task.cancelled():
            return {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}
        error = self.task.exception()
        if error is not None:
            return RpcError("internal", str(error)) if isinstance(error, Refusal) else RpcError("canceled", "ended")
        result = self.task.result()
        failure = failure_of(result)
        if failure is not None:
            return failure
        code = result.exit_code or 0
        return {"exitCode": code, "exited": True, "status": f"exit status {code}"}


class Processes:
    """The processes of one sandbox."""

    def __init__(self, sandboxes: Sandboxes, sandbox: Sandbox) -> None:
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self._numbers = count(1000)
        self.running: dict[int, Process] = {}
        sandbox.closers.append(self.close)

    def start(  # noqa: PLR0913  what a process is
        self,
        argv: list[str],
        *,
        cwd: str | None = None,
        envs: dict[str, str],
        size: dict[str, int] | None = None,
        with_input: bool = False,
        tag: str | None = None,
        timeout_s: float | None = None,
    ) -> Process:
        """Start a command; it ends by itself, by its time limit, or with the sandbox."""
        if len(self.running) >= MOST:
            raise RpcError("resource_exhausted", f"more than {MOST} processes; kill some")
        config = {"cmd": argv[0], "args": argv[1:], "envs": envs} | ({} if cwd is None else {"cwd": cwd})
        made = Process(
            pid=next(self._numbers),
            config=config,
            tag=tag,
            tty=size is not None,
            input=Input() if with_input or size is not None else None,
        )
        ceiling = self._sandboxes.agent(self._sandbox).sandbox.limits.time_ceiling
        args: dict[str, Any] = {
            "command": argv,
            "env": {**self._sandbox.envs, **envs},
            "timeout": ceiling if timeout_s is None else min(timeout_s, ceiling),
            **({} if cwd is None else {"cwd": cwd}),
            **({} if size is None else {"tty": size}),
        }
        self.running[made.pid] = made
        made.task = self._sandboxes.context.calls.start(self._run(made, args))
        return made

    async def _run(self, process: Process, args: dict[str, Any]) -> ToolResult:
        streams = Streams(
            source=None if process.input is None else process.input.source(),
            sink=process.sink,
            resizes=process.resizes if process.tty else None,
            paced=True,
        )
        try:
            return await self._sandboxes.call(self._sandbox, "exec", args, streams=streams)
        finally:
            del self.running[process.pid]
            if process.input is not None:
                process.input.close()
            for listener in process.listeners:
                # Whoever is slow gets the rest first; its request ends with this.
                self._sandboxes.context.calls.start(listener.put(None))

    def find(self, selector: dict[str, Any]) -> Process:
        """Return the process with this number or tag."""
        pid, tag = selector.get("pid"), selector.get("tag")
        for process in self.running.values():
            if process.pid == pid or (tag is not None and process.tag == tag):
                return process
        raise RpcError("not_found", f"there is no process {str(pid if tag is None else tag)[:64]}")

    def close(self) -> None:
        """End them all."""
        for process in list(self.running.values()):
            process.kill()


def processes_of(sandboxes: Sandboxes, sandbox: Sandbox) -> Processes:
    """Return the processes of a sandbox."""
    found = sandbox.parts.get("processes")
    if found is None:
        found = sandbox.parts["processes"] = Processes(sandboxes, sandbox)
    assert isinstance(found, Processes)
    return found
