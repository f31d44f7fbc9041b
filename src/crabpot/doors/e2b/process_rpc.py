"""The remote calls for processes: start, attach, list, write, resize and end."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from crabpot.doors.e2b import connect, fields
from crabpot.doors.e2b.connect import Stream
from crabpot.doors.e2b.processes import processes_of
from crabpot.doors.e2b.refusals import RpcError, rpc_error
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.context import as_json
from crabpot.doors.http.routes.streaming import Pieces, watched

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from crabpot.doors.e2b.processes import Process, Processes
    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes
    from crabpot.doors.inflight import Sign

    Handler = Callable[[Request], Awaitable[Response]]

# Every command runs as the sandbox's one user, which the API calls `user`.
_USERS = ("", "user", "agent")
_MOST_CELLS = 1000
_KILLS = ("SIGNAL_SIGKILL", "SIGNAL_SIGTERM", 9, 15)
_PING_S = (1, 600)


def sandbox_of(request: Request) -> Sandbox:
    """Return the sandbox whose secret came with the request, if it asks for no other user."""
    found: Sandbox = request.scope["state"]["sandbox"]
    _check_user(request.headers.get("authorization"))
    return found


def _check_user(given: str | None) -> None:
    if given is None:
        return
    try:
        name = base64.b64decode(given.removeprefix("Basic "), validate=True).decode().partition(":")[0]
    except (binascii.Error, ValueError):
        name = given
    check_user(name)


def check_user(name: str) -> None:
    """Refuse another user than the one that a sandbox has."""
    if name not in _USERS:
        raise RpcError("invalid_argument", f"user {name[:64]!a} is not offered; all runs as the sandbox's own user")


def streamed(request: Request, write: Callable[[Stream, Sign], Awaitable[None]]) -> Response:
    """Answer by a stream: what is refused after its begin ends it."""

    async def answer(pieces: Pieces) -> None:
        stream = Stream(pieces)
        try:
            await write(stream, watched(request))
        except Refusal as refusal:
            await stream.end(rpc_error(refusal))
        else:
            await stream.end()

    return Pieces(connect.STREAM, answer)


class ProcessRpc:
    """The service process.Process."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def routes(self) -> list[Route]:
        """Return the routes."""
        methods: dict[str, Handler] = {
            "List": self.list,
            "Start": self.start,
            "Connect": self.connect,
            "Update": self.update,
            "SendInput": self.send_input,
            "StreamInput": self.stream_input,
            "SendSignal": self.send_signal,
            "CloseStdin": self.close_stdin,
        }
        return [Route(f"/process.Process/{name}", handler, methods=["POST"]) for name, handler in methods.items()]

    def _processes(self, request: Request) -> Processes:
        return processes_of(self._sandboxes, sandbox_of(request))

    async def list(self, request: Request) -> Response:
        """List what runs."""
        await connect.unary(request)
        running = self._processes(request).running.values()
        return as_json({"processes": [_shown(process) for process in running]})

    async def start(self, request: Request) -> Response:
        """Start a command, and send its output."""
        try:
            message = await connect.only(request)
            process = self._start(request, message)
        except Refusal as refusal:
            return streamed(request, _raising(refusal))
        listener = process.listen()
        return streamed(request, lambda stream, gone: _follow(process, listener, stream, gone, _ping(request)))

    def _start(self, request: Request, message: dict[str, Any]) -> Process:
        config = fields.inner(message, "process")
        pty = fields.inner(message, "pty")
        size = fields.inner(pty, "size")
        cells = {name: fields.number(size, name, most=_MOST_CELLS) or 1 for name in ("rows", "cols")} if size else None
        return self._processes(request).start(
            [fields.path(config, "cmd"), *fields.words(config, "args")],
            cwd=fields.text(config, "cwd", "") or None,
            envs=fields.texts(config, "envs"),
            size=cells or ({"rows": 24, "cols": 80} if "pty" in message else None),
            # A client that says nothing writes later.
            with_input=fields.flag(message, "stdin", default=True),
            tag=fields.text(message, "tag", "") or None,
            timeout_s=connect.timeout_of(request),
        )

    async def connect(self, request: Request) -> Response:
        """Send the output of what runs already, from now on."""
        try:
            process = self._processes(request).find(fields.inner(await connect.only(request), "process"))
        except Refusal as refusal:
            return streamed(request, _raising(refusal))
        listener = process.listen()
        return streamed(request, lambda stream, gone: _follow(process, listener, stream, gone, _ping(request)))

    async def update(self, request: Request) -> Response:
        """Resize a terminal."""
        message = await connect.unary(request)
        process = self._processes(request).find(fields.inner(message, "process"))
        size = fields.inner(fields.inner(message, "pty"), "size")
        if not process.tty:
            raise RpcError("failed_precondition", "the process has no terminal")
        rows, cols = (fields.number(size, name, most=_MOST_CELLS) or 1 for name in ("rows", "cols"))
        await process.resizes.put((rows, cols))
        return as_json({})

    async def send_input(self, request: Request) -> Response:
        """Write to a process."""
        message = await connect.unary(request)
        process = self._processes(request).find(fields.inner(message, "process"))
        await self._write(process, fields.inner(message, "input"), watched(request))
        return as_json({})

    async def stream_input(self, request: Request) -> Response:
        """Write to a process, piece by piece."""
        processes, process = self._processes(request), None
        gone: Sign = request.scope["state"]["gone"]
        try:
            async for message in connect.messages(request):
                if "start" in message:
                    process = processes.find(fields.inner(fields.inner(message, "start"), "process"))
                elif "data" in message and process is not None:
                    await self._write(process, fields.inner(fields.inner(message, "data"), "input"), gone)
                elif "keepalive" not in message:
                    raise RpcError("invalid_argument", "a stream of input begins with the process")
        except Refusal as refusal:
            return streamed(request, _raising(refusal))
        return streamed(request, _one({}))

    async def _write(self, process: Process, given: dict[str, Any], gone: Sign) -> None:
        name = "pty" if process.tty else "stdin"
        if process.input is None or name not in given:
            raise RpcError("failed_precondition", f"the process takes no {'stdin' if name == 'pty' else 'input'}")
        writing = self._sandboxes.context.calls.start(process.input.write(fields.data(given, name)))
        await self._sandboxes.context.calls.finish(writing, gone)

    async def send_signal(self, request: Request) -> Response:
        """End a process and what it started; gently, then not: any signal of the API means that."""
        message = await connect.unary(request)
        if message.get("signal") not in _KILLS:
            raise RpcError("unimplemented", "the signals here are SIGNAL_SIGKILL and SIGNAL_SIGTERM")
        self._processes(request).find(fields.inner(message, "process")).kill()
        return as_json({})

    async def close_stdin(self, request: Request) -> Response:
        """End the input of a process."""
        message = await connect.unary(request)
        process = self._processes(request).find(fields.inner(message, "process"))
        if process.input is None or process.tty:
            raise RpcError("failed_precondition", "the process takes no input that could end")
        ending = self._sandboxes.context.calls.start(process.input.end())
        await self._sandboxes.context.calls.finish(ending, watched(request))
        return as_json({})


def _raising(refusal: Refusal) -> Callable[[Stream, Sign], Awaitable[None]]:
    async def write(_stream: Stream, _gone: Sign) -> None:
        raise refusal

    return write


def _one(message: dict[str, Any]) -> Callable[[Stream, Sign], Awaitable[None]]:
    async def write(stream: Stream, _gone: Sign) -> None:
        await stream.send(message)

    return write


def _ping(request: Request) -> float:
    given = request.headers.get("keepalive-ping-interval", "50")
    least, most = _PING_S
    return float(min(max(int(given), least), most)) if given.isascii() and given.isdigit() else float(most)


async def _follow(process: Process, listener: Any, stream: Stream, gone: Sign, ping_s: float) -> None:
    """Send a process's events until it ends, or the client leaves: the process itself goes on then."""
    departed = asyncio.create_task(gone.wait())
    departed.add_done_callback(lambda _task: listener.leave())
    try:
        await stream.send({"event": {"start": {"pid": process.pid}}})
        while not gone.is_set():
            try:
                event = await listener.next(ping_s)
            except TimeoutError:
                await stream.send({"event": {"keepalive": {}}})
                continue
            if event is None:
                if not gone.is_set():
                    await _end(process, stream)
                return
            name, data = event
            await stream.send({"event": {"data": {name: base64.b64encode(data).decode()}}})
    finally:
        departed.cancel()
        process.leave(listener)


async def _end(process: Process, stream: Stream) -> None:
    assert process.task is not None
    await asyncio.wait([process.task])
    ended = process.ended()
    if isinstance(ended, RpcError):
        raise ended
    await stream.send({"event": {"end": ended}})


def _shown(process: Process) -> dict[str, Any]:
    tag = {} if process.tag is None else {"tag": process.tag}
    return {"config": process.config, "pid": process.pid, **tag}
