"""The tool `exec`: shell text or an argv becomes a process tree with a time limit and one true exit code."""

from __future__ import annotations

import posix

from ..core.call import Job
from ..core.failure import ToolError, encode_text, from_os_error
from ..core.frames import FrameError
from ..core.hello import environment
from ..core.signals import name_of
from . import spawn
from .child import Child
from .output import BothEnds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..core.call import Call
    from ..core.server import Runner
    from .spawn import Spawned

# Beyond this, or 64 times what is kept, the command does nothing but burn CPU.
_FLOOD = 64 << 20
_FLOOD_FACTOR = 64
_DEFAULT_TERM = b"xterm-256color"
_MAX_SIDE = 1000
_NOTHING = (b"", False)


_ARGUMENTS = ("command", "cwd", "timeout", "env", "stdin", "background", "detach", "tty")
_TAKES = "command, cwd?, timeout?, env?, stdin?, background?, detach?, tty?"


def start(call: Call, runner: Runner) -> None:
    """Start the command of an `exec` call, in the foreground or as a background process."""
    args = call.args
    # Most have a command and nothing else.
    if len(args) > 1 or args.get("command") is None:
        _check_names(args)
    argv = _argv(args["command"], runner)
    stdin = None if args.get("stdin") is None else _text(args["stdin"], "stdin")
    size = _terminal_size(args.get("tty"))
    env = runner.hello.env if args.get("env") is None else _environment(args["env"], runner)
    cwd = args.get("cwd")
    if cwd == "":
        raise ToolError("invalid_arguments", 'cwd is empty; the workspace itself is "."')
    enter(call.cwd if cwd is None else cwd, runner)
    program = spawn.find(argv[0], env)
    background, detach = args.get("background") is True, args.get("detach") is True
    if background or detach:
        runner.processes.check_room()
    if size is None:
        piped = background or stdin is not None or call.input
        spawned = spawn.spawn(argv, env, stdin=piped, program=program, merged=call.merged)
    else:
        spawned = spawn.spawn_on_terminal(argv, {b"TERM": _DEFAULT_TERM, **env}, *size, program=program)
    if background:
        call.finish(data={"process": runner.processes.start(_shown(call), spawned, stdin)})
        return
    # A person reads a terminal as it comes, and paces it; hours of an interactive shell are no flood.
    paced = call.stream and (call.paced or size is not None)
    call.job = Foreground(call, runner, spawned, stdin=stdin, paced=paced, detach=detach)


def _check_names(args: dict[str, Any]) -> None:
    for name in args:
        if name not in _ARGUMENTS:
            raise ToolError("invalid_arguments", "exec has no argument %.80r; it takes %s" % (name, _TAKES))
    if args.get("command") is None:
        raise ToolError("invalid_arguments", "exec needs the argument command; it takes %s" % _TAKES)
    for name in ("background", "detach"):
        if type(args.get(name)) not in (bool, type(None)):
            raise ToolError("invalid_arguments", "%s is neither true nor false" % name)
    if args.get("background") and args.get("detach"):
        raise ToolError("invalid_arguments", "background and detach exclude each other: one waits, the other does not")


def _environment(changes: object, runner: Runner) -> dict[bytes, bytes]:
    try:
        return {**runner.hello.env, **environment(changes)}
    except FrameError as error:
        raise ToolError("invalid_arguments", str(error)) from error


class Foreground(Job):
    """A command whose end is the end of the call. `paced`: all its output is sent, as fast as it is taken."""

    _error: ToolError | None = None
    _seen = 0

    def __init__(  # noqa: PLR0913  each way to run is the caller's choice
        self,
        call: Call,
        runner: Runner,
        spawned: Spawned,
        *,
        stdin: bytes | None,
        paced: bool,
        detach: bool = False,
    ) -> None:
        self._child = Child(
            runner.reaper,
            spawned,
            on_output=self._output,
            on_gone=self._gone,
            on_consumed=call.consumed if call.input else _ignore,
            on_left=self._left if detach else None,
        )
        self._call = call
        self._runner = runner
        self._limit = None if paced else runner.hello.output_limit
        # Nothing of a stream that nothing was written to.
        self._kept: dict[str, BothEnds] = {}
        if call.timeout_s is not None:
            runner.loop.set_timer(self, call.timeout_s, self._timed_out)
        if stdin is not None and not call.input:
            self._child.feed(stdin)
            self._child.end_input()

    def _live(self, name: str) -> Callable[[bytes], None]:
        return lambda data: self._call.push(name, data)

    def _output(self, name: str, data: bytes) -> None:
        self._seen += len(data)
        if name not in self._kept:
            self._kept[name] = BothEnds(self._limit, live=self._live(name) if self._call.stream else None)
        self._kept[name].add(data)
        most = max(_FLOOD, _FLOOD_FACTOR * (self._limit or 0))
        if self._seen > most and self._limit is not None:
            self._end(ToolError("output_limit", "more than %d bytes of output" % most), at_once=True)
        elif self._call.stream and not self._call.has_room:
            self._child.pause()

    def on_room(self) -> None:
        """Resume reading once what was read could be sent."""
        if self._child.paused and self._call.has_room:
            self._child.resume()

    def feed(self, data: bytes) -> None:
        """Pass input of the call to the command."""
        self._child.feed(data)

    def feed_end(self) -> None:
        """Pass the end of the input to the command."""
        self._child.end_input()

    def resize(self, rows: int, cols: int) -> None:
        """Pass the new size to the command's terminal."""
        self._child.resize(rows, cols)

    def signal(self, number: int) -> None:
        """Signal the command and its process group, as a terminal would."""
        tree = self._child.tree
        if not tree.exited:
            try:
                posix.killpg(tree.pid, number)
            except OSError:
                return  # It may not be signalled any more, as after setuid.

    def cancel(self) -> None:
        """End the command as its time limit would."""
        self._end(ToolError("cancelled", "the call was cancelled"), at_once=False)

    def _timed_out(self) -> None:
        self._end(
            ToolError("timeout", "the time limit of %g s was reached" % (self._call.timeout_s or 0)),
            at_once=False,
        )

    def _end(self, error: ToolError, *, at_once: bool) -> None:
        if self._error is not None or self._child.tree.exited:
            return
        self._error = error
        if at_once:
            self._child.tree.kill()
        else:
            self._child.tree.terminate()

    def _left(self) -> None:
        """Answer, now that the command itself has ended; what it left running is a background process from here on."""
        process = self._runner.processes.adopt(_shown(self._call), self._child)
        self._child.end_input()
        self._finish({"process": process})

    def _gone(self) -> None:
        tree = self._child.tree
        if tree.stuck and self._error is None:
            self._error = ToolError("internal", "processes of this command could not be ended")
        self._finish({"signal": name_of(tree.signal)} if tree.signal and not self._error else None)

    def _finish(self, data: dict[str, Any] | None) -> None:
        self._runner.loop.clear_timer(self)
        kept = {name: both.take() for name, both in self._kept.items()}
        stdout, cut = kept.get("stdout", _NOTHING)
        stderr, cut_too = kept.get("stderr", _NOTHING)
        self._call.finish(
            stdout=stdout,
            stderr=stderr,
            exit_code=None if self._error else self._child.tree.exit_code,
            error=self._error,
            truncated=cut or cut_too,
            data=data,
        )


def _argv(command: Any, runner: Runner) -> list[bytes]:
    if type(command) is list:
        words = [_text(word, "command") for word in command]
        if not words or not words[0]:
            raise ToolError("invalid_arguments", "command as a list begins with the name of a program")
    else:
        words = [*runner.hello.shell, b"-c", _text(command, "command")]
    if b"\0" in b"".join(words):
        raise ToolError("invalid_arguments", "command has a NUL byte")
    return words


def _shown(call: Call) -> str:
    """Return the command as `process` lists it."""
    command = call.args["command"]
    return command if type(command) is str else " ".join(_quoted(word) for word in command)


def _quoted(word: str) -> str:
    plain = word.isascii() and word.replace("-", "").replace("_", "").replace("/", "").replace(".", "").isalnum()
    return word if plain else "'%s'" % word.replace("'", "'\"'\"'")


def _text(value: object, name: str) -> bytes:
    if type(value) is not str:
        raise ToolError("invalid_arguments", "%s is not a string" % name)
    return encode_text(value, name)


def _terminal_size(tty: Any) -> tuple[int, int] | None:
    if tty is None or tty is False:
        return None
    size = {"rows": 24, "cols": 80} if tty is True else tty
    if type(size) is not dict or not all(is_side(size.get(side)) for side in ("rows", "cols")):
        raise ToolError("invalid_arguments", "tty is neither true nor {rows, cols}")
    return size["rows"], size["cols"]


def is_side(value: object) -> bool:
    """Return whether a terminal can have this many rows or columns."""
    return type(value) is int and 0 < value <= _MAX_SIDE


def enter(cwd: object, runner: Runner) -> None:
    """Change to the folder in which the command starts. The runner does not use its own current folder, and stays."""
    if cwd is None or cwd == runner.hello.workspace:
        try:
            posix.chdir(runner.hello.workspace)
        except OSError as error:
            raise from_os_error(error, runner.hello.workspace) from error
        return
    if type(cwd) is not str:
        raise ToolError("invalid_arguments", "cwd is not a string")
    if "\0" in cwd:
        raise ToolError("invalid_arguments", "cwd has a NUL byte")
    fd = runner.tools.open_directory(runner.context, cwd)
    try:
        posix.fchdir(fd)
    except OSError as error:
        raise from_os_error(error, cwd) from error
    finally:
        posix.close(fd)


def _ignore(_size: int) -> None:
    """Do nothing: text that came with the call was never flow-controlled."""
