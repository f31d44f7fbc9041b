"""Tools that run in a forked child: searches, which a hostile pattern or tree could keep running for ever."""

from __future__ import annotations

import posix

from ..exec.tree import Tree
from .call import Job
from .failure import ToolError, as_tool_error, from_os_error
from .frames import MAX_LINE, MAX_PAYLOAD, FrameError, FrameReader, encode
from .loop import READ
from .signals import signal
from .tools import is_truncated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .call import Call
    from .server import Runner

_READ_SIZE = 256 << 10


class Forked(Job):
    """A call whose answer comes as one frame through a pipe. The child needs no cleanup: it is simply killed."""

    def __init__(self, call: Call, runner: Runner, name: str) -> None:
        self._call = call
        self._loop = runner.loop
        self._error: ToolError | None = None
        self._answer = bytearray()
        # Looked up before the fork, so that the next call finds it imported too.
        function, context = runner.tools.function(name), runner.context
        reader, writer = posix.pipe2(posix.O_CLOEXEC)
        try:
            pid = posix.fork()
        except OSError as error:
            posix.close(reader)
            posix.close(writer)
            failure = from_os_error(error, "cannot start %s" % name)
            raise ToolError("process_limit", failure.message) from error
        if pid == 0:
            try:
                posix.close(reader)
                runner.loop.abandon()
                for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                posix.setsid()
                _write_all(writer, _run(function, call.args, context))
            finally:
                posix._exit(0)  # noqa: SLF001
        posix.close(writer)
        posix.set_blocking(reader, False)
        self._reader = reader
        runner.loop.watch(reader, READ, self._readable)
        self._tree = Tree(runner.reaper, pid, on_exit=self._drain, on_gone=self._gone)
        if call.timeout_s is not None:
            runner.loop.set_timer(self, call.timeout_s, self._timed_out)

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        try:
            data = posix.read(self._reader, _READ_SIZE)
        except BlockingIOError:
            return False
        if not data or len(self._answer) > MAX_LINE + MAX_PAYLOAD:
            self._loop.unwatch(self._reader)
            return False
        self._answer += data
        return True

    def _drain(self) -> None:
        while self._read():
            pass

    def cancel(self) -> None:
        """End the search."""
        self._end(ToolError("cancelled", "the call was cancelled"))

    def _timed_out(self) -> None:
        self._end(ToolError("timeout", "the time limit of %g s was reached" % (self._call.timeout_s or 0)))

    def _end(self, error: ToolError) -> None:
        if self._error is None:
            self._error = error
            self._tree.kill()

    def _gone(self) -> None:
        self._loop.clear_timer(self)
        self._loop.close(self._reader)
        if self._error is not None:
            self._call.fail(self._error)
            return
        try:
            ((answer, payload),) = FrameReader().feed(bytes(self._answer))
        except (FrameError, ValueError):
            how = "signal %d" % self._tree.signal if self._tree.signal else "no answer"
            self._call.fail(ToolError("internal", "the search ended early: %s" % how))
            return
        if "code" in answer:
            self._call.fail(ToolError(answer["code"], answer["message"]))
        else:
            self._call.finish(data=answer["data"], truncated=answer["truncated"], payload=payload)


def _run(function: Any, args: dict[str, Any], context: Any) -> bytes:
    try:
        result = function(args, context)
        data = result.get("data")
        return encode({"data": data, "truncated": is_truncated(result)}, result.get("payload", b""))
    except FrameError as error:
        failure = ToolError("output_limit", "the result is too large: %s" % error)
    except Exception as error:  # noqa: BLE001
        failure = as_tool_error(error)
    return encode({"code": failure.code, "message": failure.message})


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[posix.write(fd, rest) :]
