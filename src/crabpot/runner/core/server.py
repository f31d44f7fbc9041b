"""The runner: takes frames off the wire, starts calls, and routes what follows to them until the stream ends."""

from __future__ import annotations

import posix

from ..exec import shell
from ..exec.reaper import Reaper
from ..upcalls.outgoing import Upcalls
from . import startup
from .call import Call
from .failure import ToolError, as_tool_error
from .frames import FrameError
from .hello import Hello, apply_limits, ready
from .landlock import confine
from .loop import Loop
from .prctl import forbid_privileges, shield_and_adopt
from .signals import signal
from .tools import Tools, is_truncated
from .wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..exec.process import Processes
    from .tools import Function

_PASSED_ON = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
_END_SIGNALS = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


class Runner:
    """One wire, one sandbox, and the calls that are under way."""

    hello: Hello
    reaper: Reaper

    def __init__(
        self, reader: int, writer: int, tools: Tools, *, loop: Loop | None = None, kind: type[Wire] = Wire
    ) -> None:
        self.tools = tools
        self.loop = loop or Loop()
        self._calls: dict[str, Call] = {}
        self._context: Any = None
        self._functions: dict[str, Function] = {}
        self._processes: Processes | None = None
        self._wire = kind(self.loop, reader, writer, self._greet)
        self._wire.on_room = self._resume
        self.upcalls = Upcalls(self._wire)
        self._operations: dict[str, Callable[[dict[str, Any], bytes], None]] = {
            "input": self._input,
            "cancel": self._cancel,
            "hold": self._hold,
            "resume": self._release,
            "resize": self._resize,
            "signal": self._signal,
            "ack": self._ack,
            "data": self.upcalls.data,
            "reply": self.upcalls.reply,
        }

    @property
    def context(self) -> Any:
        """Return what the file tools know of the sandbox; made when the first of them is called."""
        if self._context is None:
            self._context = self.tools.context(self.hello.workspace, self.hello.roots)
        return self._context

    @property
    def processes(self) -> Processes:
        """Return the background commands; most sandboxes never have one."""
        if self._processes is None:
            from ..exec.process import Processes  # noqa: PLC0415

            self._processes = Processes(self.reaper, self.hello.output_limit)
        return self._processes

    def run(self) -> str:
        """Serve until the stream ends, then end all that was started; return what was wrong with the stream, or ""."""
        try:
            self.loop.run()
        finally:
            if hasattr(self, "reaper"):
                self.reaper.kill_everything()
        return self._wire.lost_because or ""

    # --- frames -------------------------------------------------------------------------------------------------

    def _greet(self, header: dict[str, Any], _payload: bytes) -> None:
        # Not before hello, so that a gateway of the same user can look at what is mounted; nothing runs yet.
        shield_and_adopt()
        self.hello = Hello(header)
        apply_limits(self.hello)
        if self.hello.writable:
            forbid_privileges()
            listed = self.hello.readable
            confine(
                self.hello.writable,
                readable=("/",) if listed is None else listed,
                walkable=() if listed is None else ("/",),
                blank=self.hello.blank,
                offline=self.hello.offline,
            )
        self.reaper = Reaper(self.loop, contained=self.hello.contained)
        self.loop.catch((signal.SIGCHLD, *_END_SIGNALS), self._signalled)
        if self.hello.proxy is not None:
            from ..upcalls.proxy import Proxy  # noqa: PLC0415

            Proxy(self, self.hello.proxy)
        self._wire.handle = self._handle
        if self.hello.shims:
            from ..upcalls import shims  # noqa: PLC0415

            shims.listen(self.loop, self.upcalls)
        self._wire.send(ready())

    def _handle(self, header: dict[str, Any], payload: bytes) -> None:
        operation = header.get("op")
        if operation is None:
            self._start(Call(header, self._wire, self._ended))
            return
        handler = self._operations.get(operation) if type(operation) is str else None
        if handler is None:
            raise FrameError("an operation that does not exist")
        handler(header, payload)

    def _signalled(self, numbers: bytes) -> None:
        if not _END_SIGNALS.isdisjoint(numbers):
            self._wire.lose("")
        self.reaper.collect()

    def _resume(self) -> None:
        for call in list(self._calls.values()):
            if call.job is not None:
                call.job.on_room()
        self.upcalls.resume()

    # --- calls --------------------------------------------------------------------------------------------------

    def _start(self, call: Call) -> None:
        if call.id in self._calls:
            # Answered as a call of its own, so that the one under way keeps its id.
            Call({"id": call.id}, self._wire, lambda _: None).fail(
                ToolError("invalid_arguments", "a call with this id is under way")
            )
            return
        self._calls[call.id] = call
        try:
            call.check()
            self._dispatch(call)
        except Exception as error:  # noqa: BLE001
            call.fail(as_tool_error(error))

    def _dispatch(self, call: Call) -> None:
        name = call.tool
        if name == "exec":
            shell.start(call, self)
        elif name == "run":
            from ..exec import program  # noqa: PLC0415

            program.start(call, self)
        elif name == "process":
            from ..exec import process  # noqa: PLC0415

            process.start(call, self)
        elif (call.stream and name == "read") or (call.input and name == "write"):
            from ..files import transfer  # noqa: PLC0415

            call.job = transfer.Download(call, self) if name == "read" else transfer.Upload(call, self)
        elif name in self.tools.inline:
            function = self._functions.get(name)
            if function is None:
                function = self._functions[name] = self.tools.function(name)
            result = function(call.args, self.context)
            call.finish(truncated=is_truncated(result), **result)
        elif name in self.tools.forked:
            from .forked import Forked  # noqa: PLC0415

            call.job = Forked(call, self, name)
        else:
            raise ToolError("not_found", "no tool is called %r" % name)

    def _ended(self, call: Call) -> None:
        del self._calls[call.id]

    def _find(self, header: dict[str, Any]) -> Call | None:
        """Return the call of a frame, or None: a frame may cross the answer that ended its call."""
        call_id = header.get("id")
        if type(call_id) is not str:
            raise FrameError("an operation without an id")
        return self._calls.get(call_id)

    def _input(self, header: dict[str, Any], payload: bytes) -> None:
        call = self._find(header)
        if call is None:
            return
        if payload:
            call.receive(payload)
        if header.get("eof") is True and call.job is not None:
            call.job.feed_end()

    def _hold(self, header: dict[str, Any], _payload: bytes) -> None:
        call = self._find(header)
        if call is not None and call.job is not None:
            self.loop.hold_timer(call.job)

    def _release(self, header: dict[str, Any], _payload: bytes) -> None:
        call = self._find(header)
        if call is not None and call.job is not None:
            self.loop.resume_timer(call.job)

    def _cancel(self, header: dict[str, Any], _payload: bytes) -> None:
        call = self._find(header)
        if call is not None:
            call.cancel()

    def _resize(self, header: dict[str, Any], _payload: bytes) -> None:
        call = self._find(header)
        rows, cols = header.get("rows"), header.get("cols")
        if not (shell.is_side(rows) and shell.is_side(cols)):
            raise FrameError("not a terminal size")
        if call is not None and call.job is not None:
            call.job.resize(rows, cols)  # type: ignore[arg-type]

    def _signal(self, header: dict[str, Any], _payload: bytes) -> None:
        call = self._find(header)
        name = header.get("signal")
        number = getattr(signal, "SIG" + name, None) if type(name) is str and name in _PASSED_ON else None
        if number is None:
            raise FrameError("a signal that is not passed on")
        if call is not None and call.job is not None:
            call.job.signal(number)

    def _ack(self, header: dict[str, Any], _payload: bytes) -> None:
        size = header.get("n")
        if type(size) is not int or size < 0:
            raise FrameError("an acknowledgement of nothing")
        if "up" in header:
            self.upcalls.ack(header, size)
            return
        call = self._find(header)
        if call is not None:
            call.acknowledged(size)


def main(argv: list[str], tools: Tools | None = None) -> int:
    """Run the program."""
    if argv and argv[0] != "--fd":
        from ..socket import listening  # noqa: PLC0415

        return listening.main(argv)
    reader, writer = startup.take_wire(argv)
    startup.reset_signals()
    reason = Runner(reader, writer, tools or Tools()).run()
    if reason:
        posix.write(2, b"crabpot runner: %s\n" % reason.encode("utf-8", "replace"))
    return 1 if reason else 0
