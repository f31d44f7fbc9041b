"""One call from the gateway: its arguments, its flow of bytes in both directions, and its single answer."""

from __future__ import annotations

from .failure import ToolError
from .frames import ACK_EVERY, MAX_PAYLOAD, WINDOW, FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .wire import Wire

# Longer text is sent ahead of the result as output frames: escaped into JSON it may grow sixfold, beyond a line.
_TEXT_IN_RESULT = 128 << 10
_MAX_ID = 64
# Nearly every call has these and nothing else.
_USUAL = frozenset(("id", "tool", "args", "timeout"))


class Job:
    """The work of a call after the frame that started it. Each kind of job overrides the events that concern it."""

    def cancel(self) -> None:
        """End the call with the code `cancelled`."""

    def feed(self, data: bytes) -> None:
        """Take input of the call."""

    def feed_end(self) -> None:
        """Handle the end of the input."""

    def resize(self, rows: int, cols: int) -> None:
        """Handle a new size of the person's terminal."""

    def signal(self, number: int) -> None:
        """Pass on a signal that somebody sent to the command."""

    def on_room(self) -> None:
        """Continue, now that there may be room again for what the call sends."""


class Call:
    """Lives from its frame until its result is sent. `words` is the argv of a command whose args were a list."""

    words: list[Any] | None = None
    job: Job | None = None
    cwd: object = None
    # `paced`: all output is sent, as fast as it is taken; `merged`: both outputs as one.
    stream = input = paced = merged = False
    _queued = _unacknowledged = _received = _consumed = 0
    _result: tuple[dict[str, Any], bytes] | None = None

    def __init__(self, header: dict[str, Any], wire: Wire, on_end: Callable[[Call], None]) -> None:
        call_id = header.get("id")
        if type(call_id) is not str or not 0 < len(call_id) <= _MAX_ID:
            raise FrameError("a call without a proper id")
        self.id: str = call_id
        self.tool = header.get("tool")
        self.args: dict[str, Any] = header.get("args", {})
        self.timeout_s: float | None = header.get("timeout")
        if not header.keys() <= _USUAL:
            self.cwd = header.get("cwd")
            self.stream = header.get("stream") is True
            self.input = header.get("input") is True
            self.paced = header.get("paced") is True
            self.merged = header.get("merged") is True
        self._wire = wire
        self._on_end = on_end
        self._queue: list[tuple[str, memoryview]] = []

    def check(self) -> None:
        """Refuse what is not shaped like a call."""
        if type(self.args) is not dict:
            raise ToolError("invalid_arguments", "args is not an object")
        if type(self.tool) is not str:
            raise ToolError("invalid_arguments", "tool is not a string")
        timeout = self.timeout_s
        if timeout is not None and (type(timeout) not in (int, float) or not timeout > 0):
            raise ToolError("invalid_arguments", "timeout is not a number of seconds above 0")

    # --- output -------------------------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Return whether more can be sent now without buffering it here."""
        return self._unacknowledged + self._queued < WINDOW and not self._wire.congested

    def push(self, stream: str, data: bytes) -> None:
        """Send output as far as the window is open, and queue the rest in order."""
        if data:
            self._queue.append((stream, memoryview(data)))
            self._queued += len(data)
            self._send_queue()

    def acknowledged(self, size: int) -> None:
        """Note that the gateway took `size` bytes of output."""
        self._unacknowledged = max(0, self._unacknowledged - size)
        self._send_queue()
        if self.job is not None:
            self.job.on_room()

    def _send_queue(self) -> None:
        while self._queue and self._unacknowledged < WINDOW:
            stream, data = self._queue[0]
            piece = data[: min(WINDOW - self._unacknowledged, MAX_PAYLOAD)]
            self._wire.send({"op": "output", "id": self.id, "stream": stream}, piece)
            self._unacknowledged += len(piece)
            self._queued -= len(piece)
            if len(piece) == len(data):
                del self._queue[0]
            else:
                self._queue[0] = (stream, data[len(piece) :])
        if self._result is not None and not self._queue:
            self._answer(*self._result)

    # --- input --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take input from the gateway, which may not run ahead of what was consumed by more than the window."""
        if not self.input:
            raise FrameError("input for a call that takes none")
        self._received += len(data)
        if self._received > WINDOW:
            raise FrameError("more input than the window allows")
        if self.job is not None:
            self.job.feed(data)

    def consumed(self, size: int) -> None:
        """Note that the tool took `size` bytes of input."""
        self._consumed += size
        if self._consumed >= ACK_EVERY:
            self._wire.send({"op": "ack", "id": self.id, "n": self._consumed})
            self._received -= self._consumed
            self._consumed = 0

    # --- the answer ---------------------------------------------------------------------------------------------

    def fail(self, error: ToolError) -> None:
        """Answer that the call failed."""
        self.finish(error=error)

    def finish(  # noqa: PLR0913  # the fields of a result
        self,
        *,
        stdout: bytes = b"",
        stderr: bytes = b"",
        exit_code: int | None = None,
        error: ToolError | None = None,
        truncated: bool = False,
        data: object = None,
        payload: bytes = b"",
    ) -> None:
        """Answer the call, once, and after all of its output, however long the gateway takes to read it."""
        if self.stream or len(stdout) + len(stderr) > _TEXT_IN_RESULT:
            self.push("stdout", stdout)
            self.push("stderr", stderr)
            stdout = stderr = b""
        header = {
            "id": self.id,
            "success": error is None and exit_code in (None, 0),
            "stdout": stdout.decode("utf-8", "replace"),
            "stderr": stderr.decode("utf-8", "replace"),
            "exit_code": exit_code,
            "error": None if error is None else {"code": error.code, "message": error.message},
            "truncated": truncated,
            "data": data,
        }
        self.job = None
        if self._queue:
            self._result = (header, payload)
        else:
            self._answer(header, payload)

    def cancel(self) -> None:
        """End the call early; one that only waits for its output to be read is answered without it."""
        if self.job is not None:
            self.job.cancel()
        elif self._result is not None:
            self._queue, self._result = [], None
            self.fail(ToolError("cancelled", "the call was cancelled"))

    def _answer(self, header: dict[str, Any], payload: bytes) -> None:
        self._result = None
        try:
            self._wire.send(header, payload)
        except FrameError as error:
            reason = {"code": "output_limit", "message": "the result is too large: %s" % error}
            self._wire.send({**header, "success": False, "error": reason, "data": None, "stdout": "", "stderr": ""})
        self._on_end(self)
