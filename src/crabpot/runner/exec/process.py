"""The tool `process`: commands in the background, which outlive the call that started them."""

from __future__ import annotations

from ..core.call import Job
from ..core.failure import ToolError, encode_text
from ..core.signals import name_of
from .child import Child
from .output import BothEnds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.call import Call
    from ..core.server import Runner
    from .reaper import Reaper
    from .spawn import Spawned

_MAX_LIVE = 32
_MAX_ENDED = 64
_MAX_UNREAD_INPUT = 1 << 20


class Background:
    """One background command, and what it wrote since it was last polled."""

    def __init__(self, process_id: str, command: str, output_limit: int) -> None:
        self.id = process_id
        self.command = command
        self.running = True
        self.waiting: list[Waiting] = []
        self.child: Child
        # The limit is the process's, not a stream's.
        self.kept = {"stdout": BothEnds(output_limit // 2), "stderr": BothEnds(output_limit // 2)}

    def output(self, name: str, data: bytes) -> None:
        """Keep what it wrote."""
        self.kept[name].add(data)

    def describe(self) -> dict[str, Any]:
        """Return it as the answers of the tool show it."""
        tree = self.child.tree
        shown: dict[str, Any] = {"id": self.id, "command": self.command, "running": self.running}
        shown["exit_code"] = None if self.running else tree.exit_code
        if not self.running and tree.signal:
            shown["signal"] = name_of(tree.signal)
        return shown


class Processes:
    """All background commands of the sandbox, by id."""

    def __init__(self, reaper: Reaper, output_limit: int) -> None:
        self._reaper = reaper
        self._output_limit = output_limit
        self._all: dict[str, Background] = {}
        # Those whose end has been reported: no longer listed, and whoever asks again is told the same.
        self._reported: dict[str, Background] = {}
        self._last = 0

    def start(self, command: str, spawned: Spawned, stdin: bytes | None) -> str:
        """Take over a command that just started, for which there was room; return its id.

        `stdin` is all of its input, None leaves it open for `write`.
        """
        process = Background("p%d" % (self._last + 1), command, self._output_limit)
        process.child = Child(
            self._reaper,
            spawned,
            on_output=process.output,
            on_gone=lambda: self._ended(process),
            on_consumed=lambda _size: None,
        )
        self._last += 1
        self._all[process.id] = process
        if stdin is not None:
            process.child.feed(stdin)
            process.child.end_input()
        return process.id

    def check_room(self) -> None:
        """Refuse one more than may run at once."""
        if sum(process.running for process in self._all.values()) >= _MAX_LIVE:
            raise ToolError("process_limit", "%d background processes are running: end one first" % _MAX_LIVE)

    def adopt(self, command: str, child: Child) -> str:
        """Take over what a detached command left running; return the id under which it is listed."""
        self._last += 1
        process = Background("p%d" % self._last, command, self._output_limit)
        process.child = child
        self._all[process.id] = process
        child.pass_on(process.output, lambda: self._ended(process))
        return process.id

    def _ended(self, process: Background) -> None:
        process.running = False
        ended = [other for other in self._all.values() if not other.running]
        for other in ended[: max(0, len(ended) - _MAX_ENDED)]:
            del self._all[other.id]
        for waiting in list(process.waiting):
            waiting.answer()

    @property
    def running(self) -> bool:
        """Return whether one has not ended."""
        return any(process.running for process in self._all.values())

    def end_all(self) -> None:
        """End every command: nobody is left who could ask for it."""
        for process in self._all.values():
            if process.running:
                process.child.tree.terminate()

    def find(self, process_id: object) -> Background:
        """Return the process with that id."""
        if type(process_id) is not str:
            raise ToolError("not_found", "no process was named: every action but list needs the argument id")
        process = self._all.get(process_id) or self._reported.get(process_id)
        if process is None:
            raise ToolError("not_found", "no process %r: it was never started, or ended long ago" % process_id)
        return process

    def list(self) -> list[dict[str, Any]]:
        """Return all that run, and those whose end has not been reported."""
        return [process.describe() for process in self._all.values()]

    def report(self, call: Call, process: Background) -> None:
        """Answer with the state and the new output."""
        (stdout, cut), (stderr, cut_too) = process.kept["stdout"].take(), process.kept["stderr"].take()
        if not process.running:
            self._all.pop(process.id, None)
            self._reported[process.id] = process
            if len(self._reported) > _MAX_ENDED:
                del self._reported[next(iter(self._reported))]
        call.finish(stdout=stdout, stderr=stderr, truncated=cut or cut_too, data=process.describe())


class Waiting(Job):
    """A call that is answered at the end of a process, or when its own time is over."""

    def __init__(self, call: Call, runner: Runner, process: Background) -> None:
        self._call = call
        self._runner = runner
        self._process = process
        process.waiting.append(self)
        if call.timeout_s is not None:
            runner.loop.set_timer(self, call.timeout_s, self.answer)

    def answer(self) -> None:
        """Answer with the state of the process now."""
        self._leave()
        self._runner.processes.report(self._call, self._process)

    def cancel(self) -> None:
        """End the waiting; the process goes on."""
        self._leave()
        self._call.fail(ToolError("cancelled", "the call was cancelled"))

    def _leave(self) -> None:
        self._process.waiting.remove(self)
        self._runner.loop.clear_timer(self)


def start(call: Call, runner: Runner) -> None:
    """Answer a `process` call."""
    for name in call.args:
        if name not in ("action", "id", "data"):
            raise ToolError("invalid_arguments", "process has no argument %.80r; it takes action, id?, data?" % name)
        if name != "action" and type(call.args[name]) not in (str, type(None)):
            raise ToolError("invalid_arguments", "%s is not a string" % name)
    action = call.args.get("action")
    processes = runner.processes
    if action == "list":
        call.finish(data={"processes": processes.list()})
        return
    if action not in ("poll", "write", "kill", "wait"):
        raise ToolError("invalid_arguments", "action is not one of list, poll, write, kill, wait")
    process = processes.find(call.args.get("id"))
    if action == "write":
        _write(process, call.args)
    if action == "kill" and process.running:
        process.child.tree.terminate()
    if action in ("kill", "wait") and process.running:
        call.job = Waiting(call, runner, process)
    else:
        processes.report(call, process)


def _write(process: Background, args: dict[str, Any]) -> None:
    data = args.get("data", False)
    if data is None:
        process.child.end_input()
        return
    if type(data) is not str:
        raise ToolError("invalid_arguments", "data is neither a string nor null, which closes the input")
    if not process.running:
        raise ToolError("conflict", "process %s has ended" % process.id)
    raw = encode_text(data, "data")
    if process.child.unread_input + len(raw) > _MAX_UNREAD_INPUT:
        raise ToolError("conflict", "process %s has not read its earlier input" % process.id)
    process.child.feed(raw)
