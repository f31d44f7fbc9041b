"""Files sent in pieces: a streamed `read`, and a `write` from the input of its call, with other calls in between."""

from __future__ import annotations

from ..core.call import Job
from ..core.failure import ToolError, as_tool_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.call import Call
    from ..core.server import Runner


class Transfer(Job):
    """What both directions share: a time limit, cancellation, and failures that leave nothing behind."""

    def __init__(self, call: Call, runner: Runner) -> None:
        self._call = call
        self._loop = runner.loop
        self._done = False
        if call.timeout_s is not None:
            runner.loop.set_timer(self, call.timeout_s, self._timed_out)

    def _release(self) -> None:
        """Release the file; each direction has its own way."""

    def _end(self, error: ToolError | None, data: object = None) -> None:
        if self._done:
            return
        self._done = True
        self._loop.clear_timer(self)
        if error is not None:
            self._release()
        self._call.finish(error=error, data=data)

    def _failed(self, error: Exception) -> None:
        self._end(as_tool_error(error))

    def cancel(self) -> None:
        """Stop in the middle of the file."""
        self._end(ToolError("cancelled", "the call was cancelled"))

    def _timed_out(self) -> None:
        self._end(ToolError("timeout", "the time limit of %g s was reached" % (self._call.timeout_s or 0)))


class Download(Transfer):
    """Sends a file as it is read: one piece a round, and none while the gateway is behind."""

    def __init__(self, call: Call, runner: Runner) -> None:
        self._pieces = runner.tools.stream_read(call.args, runner.context)
        super().__init__(call, runner)
        self.on_room()

    def on_room(self) -> None:
        """Continue with the next round."""
        self._loop.soon(self, self._step)

    def _step(self) -> None:
        if self._done or not self._call.has_room:
            return
        try:
            piece = next(self._pieces)
        except StopIteration as end:
            self._end(None, end.value)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        else:
            self._call.push("content", piece)
            self.on_room()

    def _release(self) -> None:
        self._pieces.close()


class Upload(Transfer):
    """Writes a file as it comes; only a complete one is put in place."""

    def __init__(self, call: Call, runner: Runner) -> None:
        self._writer = runner.tools.input_writer(call.args, runner.context)
        super().__init__(call, runner)

    def feed(self, data: bytes) -> None:
        """Write the next piece."""
        try:
            self._writer.write(data)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        else:
            self._call.consumed(len(data))

    def feed_end(self) -> None:
        """Put the complete file in place."""
        try:
            data = self._writer.commit()
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        else:
            self._end(None, data)

    def _release(self) -> None:
        self._writer.abort()
