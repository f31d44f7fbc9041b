"""One connection to a listening runner: greeted like any wire, or plain; bounded, and ended alone."""

from __future__ import annotations

import posix
from collections import deque
from time import monotonic

from ..core.call import Call
from ..core.failure import ToolError, encode_text
from ..core.frames import FrameError
from ..core.hello import Hello, ready
from ..core.server import Runner
from ..core.tools import SharedTools
from ..exec import shell
from . import splitting
from .clientwire import ClientWire
from .plain import NOT_ONE_LINE, PlainCall, checked, refusal, without_words, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .listening import Shared

TOOLS = frozenset((*SharedTools.inline, *SharedTools.forked, "exec", "process"))
DEFAULT_TIMEOUT_S = 60.0
LONGEST_TIMEOUT_S = 3600.0
LARGEST_OUTPUT = 16 << 20
# A plain client that asks for more waits; a gateway, which must be served while its calls run, gets an error.
_PLAIN_AT_ONCE = 8
_GREETED_AT_ONCE = 64


class Client(Runner):
    """Its calls, one step a round, so that everybody else's get their turn."""

    _wire: ClientWire

    def __init__(self, shared: Shared, fd: int, peer: tuple[int, int]) -> None:
        super().__init__(fd, posix.dup(fd), shared.tools, loop=shared.loop, kind=ClientWire)
        self.reaper = shared.reaper
        self.peer = peer
        self.since = monotonic()
        self.plain = False
        self._shared = shared
        self._context = shared.context
        self._queue: deque[tuple[dict[str, Any], bytes]] = deque()
        self._serve: Callable[[dict[str, Any], bytes], None] = self._first
        self._count = 0
        self._ending = False
        self._noted: tuple[object, float] = (None, 0.0)
        self._wire.client = self
        self._wire.on_lost = self._lost
        self._wire.on_drained = self._settle
        self._wire.handle = self._arrived

    @property
    def busy(self) -> bool:
        """Return whether a call, or a command in the background, is under way."""
        return bool(self._calls or self._queue) or (self._processes is not None and self._processes.running)

    # --- frames, one a round --------------------------------------------------------------------------------------

    def _arrived(self, header: dict[str, Any], payload: bytes) -> None:
        self._queue.append((header, payload))
        self._wire.hold()
        self.loop.soon(self, self._step)

    def _step(self) -> None:
        if self._wire.lost_because is not None or self._is_full:
            return
        if self._queue:
            self.since = monotonic()
            self._count += 1
            try:
                self._serve(*self._queue.popleft())
            except FrameError as error:
                self.refuse(str(error))
            except Exception as error:  # noqa: BLE001  a fault in one client's request must not end the others
                self.refuse("internal: %s" % error)
        self._go_on()

    @property
    def _is_full(self) -> bool:
        return self.plain and len(self._calls) >= _PLAIN_AT_ONCE

    def _go_on(self) -> None:
        if self._queue:
            self.loop.soon(self, self._step)
        elif not self._ending and not self._is_full:
            self._wire.release()
        self._settle()

    def _ended(self, call: Call) -> None:
        super()._ended(call)
        self.since = monotonic()
        if self._wire.lost_because is None:
            self._go_on()

    def _first(self, header: dict[str, Any], payload: bytes) -> None:
        if header.get("op") == "hello":
            self._greet(header, payload)
            self._serve = self._handle
        elif "op" in header:
            raise FrameError("the first frame is neither hello nor a request")
        else:
            self.plain = True
            self.hello = self._shared.hello()
            self._serve = self._request
            self._request(header, payload)

    def _greet(self, header: dict[str, Any], _payload: bytes) -> None:
        """Accept a gateway's hello; what this runner is and may do was settled by who started it."""
        asked, self.hello = Hello(header), self._shared.hello()
        self.hello.output_limit = min(asked.output_limit, LARGEST_OUTPUT)
        self.hello.env = {**self.hello.env, **asked.env, b"HOME": encode_text(self.hello.workspace, "workspace")}
        more = {"roots": list(self.hello.roots), "commands": list(self._shared.allowed.names)}
        self._wire.send({**ready(), **more})

    def _request(self, header: dict[str, Any], _payload: bytes) -> None:
        if "op" in header:
            raise FrameError("operations need a hello first")
        self._start(PlainCall(self._count, without_words(header), self._wire, self._ended), words_of(header))

    def _handle(self, header: dict[str, Any], payload: bytes) -> None:
        if header.get("op") is not None:
            super()._handle(header, payload)
            return
        self._start(Call(without_words(header), self._wire, self._ended), words_of(header))

    # --- calls ----------------------------------------------------------------------------------------------------

    def _start(self, call: Call, command: list[Any] | None = None) -> None:
        call.words = command
        super()._start(call)

    def _dispatch(self, call: Call) -> None:
        if len(self._calls) > _GREETED_AT_ONCE:
            raise ToolError("process_limit", "%d calls are under way on this connection" % _GREETED_AT_ONCE)
        call.timeout_s = min(call.timeout_s or DEFAULT_TIMEOUT_S, LONGEST_TIMEOUT_S)
        names = self._shared.allowed.names
        if call.words is not None:
            self._run(call, checked(call.words), None)
        elif call.tool == "exec" and not self._shared.allowed.has_shell:
            self._exec(call)
        elif call.tool in TOOLS:
            if self.plain and call.cwd is not None:
                self._move(call)
            super()._dispatch(call)
        elif call.tool in names and not call.args:
            self._run(call, [str(call.tool)], None)
        else:
            hint = "; give its args as a list" if call.tool in names else ""
            raise ToolError("not_found", "no tool is called %.80r%s" % (call.tool, hint))

    def _exec(self, call: Call) -> None:
        """Run shell text without a shell: one simple command of the allow-list."""
        self._run(call, *splitting.simple_command(call.args))

    def _run(self, call: Call, command: list[str], stdin: bytes | None) -> None:
        shell.enter(call.args.get("cwd") or call.cwd, self)
        folder = posix.getcwdb()
        self._shared.allowed.roots.begin()
        self._shared.allowed.roots.resolve(folder, folder)
        start = self._shared.allowed.prepare(command, folder, self.loop.abandon)
        if call.args.get("background"):
            self.processes.check_room()
            number = self.processes.start(call.args["command"], start(stdin=True), stdin)
            call.finish(data={"process": number})
            return
        piped = stdin is not None or call.input
        call.job = shell.Foreground(call, self, start(stdin=piped), stdin=stdin, paced=False)

    def _move(self, call: Call) -> None:
        """Resolve the paths of a file tool from the folder of its request."""
        shell.enter(call.cwd, self)
        if call.tool in ("exec", "process"):
            return
        if call.tool == "apply_patch":
            if posix.getcwd() != self.hello.workspace:
                raise ToolError("invalid_arguments", "apply_patch takes its paths from the first root: leave cwd out")
            return
        path = call.args.get("path")
        if path is None or (type(path) is str and not path.startswith("/")):
            call.args = {**call.args, "path": "%s/%s" % (posix.getcwd(), path) if path else posix.getcwd()}

    # --- the end --------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Report what is wrong, once, and hang up."""
        if self._ending:
            return
        if self.plain or self._serve == self._first:
            self._wire.send(refusal(reason))
        self._ending = True
        self._queue.clear()
        self._wire.hold()
        for call in list(self._calls.values()):
            call.cancel()
        self._settle()

    def evict(self) -> None:
        """Make room for another client, at once."""
        if self.plain or self._serve == self._first:
            self._wire.send(refusal("this runner has too many connections"))
        self._wire.lose("")

    def stream_ended(self) -> None:
        """Handle the end of the stream: a plain client may have sent its last request, and wait for the answers."""
        if not self._ending and self._wire.partial:
            try:
                self._wire.end_line()
            except FrameError as error:
                self._wire.broken(error)
                return
        self._ending = True
        self._wire.hold()
        if not self.plain and self._serve != self._first:
            self._wire.lose("")
        self._settle()

    def _settle(self) -> None:
        if self._ending and not self._calls and not self._queue and not self._wire.backlog:
            self._wire.lose("")

    def _lost(self) -> None:
        self._wire.close()
        self._shared.forget(self)
        for call in list(self._calls.values()):
            call.cancel()
        if self._processes is not None:
            self._processes.end_all()

    def sweep(self, now: float, patience_s: float) -> None:
        """Cut off a client that sent nothing, stopped in the middle, does not read, or has long been idle."""
        stalled = (self._count, self._wire.written) if self._wire.partial or self._wire.backlog else None
        if stalled is None or stalled != self._noted[0]:
            self._noted = (stalled, now)
        elif now - self._noted[1] > patience_s:
            if self._wire.backlog:
                self._wire.lose("")
            else:
                self.refuse("the request was not complete within %g s; %s" % (patience_s, NOT_ONE_LINE))
            return
        if self._serve == self._first and not self._wire.partial and now - self.since > patience_s:
            self.refuse("no request came within %g s" % patience_s)
        elif self.plain and not self.busy and now - self.since > 10 * patience_s:
            self._wire.lose("")
