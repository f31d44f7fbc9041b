"""Start one command: new session, default signals, and three descriptors of its own, which are all that it gets."""

from __future__ import annotations

import errno
import posix
from _stat import S_ISREG

from ..core.failure import ToolError, from_os_error
from ..core.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

# Python ignores SIGPIPE and SIGXFSZ in the runner, and an ignored signal stays ignored across exec; `yes | head` would
# not end. All are listed: of any other the C library first asks whether it is ignored, which takes a system call more.
_DEFAULT_AGAIN = tuple(signal.valid_signals())
_FAILURES = {errno.EAGAIN: "process_limit"}
_NO_INPUT = (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDONLY, 0)
_COULD_NOT_START = 126
_SHELL = b"/bin/sh"


class Spawned:
    """A started process and our ends of its descriptors: its outputs by name, and -1 where there is no other."""

    __slots__ = ("keep", "outputs", "pid", "stdin")

    def __init__(self, pid: int, outputs: dict[str, int], stdin: int, keep: int = -1) -> None:
        self.pid = pid
        self.outputs = outputs
        self.stdin = stdin
        self.keep = keep


def find(name: bytes, env: dict[bytes, bytes]) -> bytes:
    """Return the file that a command's first word names: itself if it has a slash, else the first one on its PATH."""
    if b"/" in name:
        return name
    found = denied = b""
    for folder in env.get(b"PATH", b"").split(b":"):
        path = (folder or b".") + b"/" + name
        try:
            if S_ISREG(posix.stat(path).st_mode):
                if posix.access(path, posix.X_OK):
                    found = path
                    break
                denied = denied or path
        except OSError:
            pass
    if not found and not denied:
        raise ToolError("not_found", "no program on PATH is called %s" % name.decode("utf-8", "replace"))
    return found or denied


def spawn(
    argv: list[bytes], env: dict[bytes, bytes], *, stdin: bool, program: bytes | None = None, merged: bool = False
) -> Spawned:
    """Start `argv` in the current folder, its output into pipes; `stdin` is a pipe too, or /dev/null.

    `program` is the file to start if that is not what `argv` begins with. `merged`: both outputs go into one pipe, so
    that their order is kept.
    """

    def begin(child_stdout: int, child_stderr: int, child_stdin: int = -1) -> int:
        actions: list[Any] = [
            (posix.POSIX_SPAWN_DUP2, child_stdout, 1),
            (posix.POSIX_SPAWN_DUP2, child_stdout if merged else child_stderr, 2),
            (posix.POSIX_SPAWN_DUP2, child_stdin, 0) if stdin else _NO_INPUT,
        ]
        return _start(program or argv[0], argv, env, actions)

    return _on_pipes(begin, stdin=stdin)


def spawn_forked(body: Callable[[], None], *, stdin: bool, release: Callable[[], None]) -> Spawned:
    """Start a copy of the runner that runs `body`, which ends by becoming a program."""

    def begin(child_stdout: int, child_stderr: int, child_stdin: int = -1) -> int:
        try:
            pid = posix.fork()
        except OSError as error:
            failure = from_os_error(error, "cannot start a command")
            raise ToolError(_FAILURES.get(error.errno or 0, failure.code), failure.message) from error
        if pid != 0:
            return pid
        try:
            release()
            for number in _DEFAULT_AGAIN:
                if signal.getsignal(number) is not signal.SIG_DFL:
                    signal.signal(number, signal.SIG_DFL)
            posix.setsid()
            null = child_stdin if stdin else posix.open("/dev/null", posix.O_RDONLY)
            for standard, fd in enumerate((null, child_stdout, child_stderr)):
                posix.dup2(fd, standard)
            body()
        except Exception as error:  # noqa: BLE001  nothing of the parent's may run on in here
            posix.write(2, b"crabpot runner: cannot start: %s\n" % repr(error).encode("utf-8", "replace"))
        finally:
            posix._exit(_COULD_NOT_START)  # noqa: SLF001

    return _on_pipes(begin, stdin=stdin)


def _on_pipes(begin: Callable[..., int], *, stdin: bool) -> Spawned:
    """Make the pipes, let `begin(stdout, stderr[, stdin])` start a process on their far ends, and keep ours."""
    fds: list[int] = []  # Our end of each pipe, and after it the far one.
    try:
        fds += posix.pipe2(posix.O_CLOEXEC)
        fds += posix.pipe2(posix.O_CLOEXEC)
        if stdin:
            fds += posix.pipe2(posix.O_CLOEXEC)[::-1]
        # Only our ends are non-blocking: a child may reopen its own pipe by /proc/self/fd and drain it behind our back,
        # which would make us wait for ever.
        for fd in fds[::2]:
            posix.set_blocking(fd, False)
        pid = begin(*fds[1::2])
    except BaseException as error:
        for fd in fds:
            posix.close(fd)
        if isinstance(error, OSError):
            raise from_os_error(error, "cannot start a command") from error
        raise
    for fd in fds[1::2]:
        posix.close(fd)
    return Spawned(pid, {"stdout": fds[0], "stderr": fds[2]}, fds[4] if stdin else -1)


def spawn_on_terminal(
    argv: list[bytes], env: dict[bytes, bytes], rows: int, cols: int, *, program: bytes | None = None
) -> Spawned:
    """Start `argv` on a pseudo-terminal of its own, as the leader of its session."""
    fds: list[int] = []
    try:
        try:
            master, slave = posix.openpty()
            fds = [master, slave]
            name = posix.ttyname(slave)
        except OSError as error:
            raise ToolError("internal", "no pseudo-terminal: %s" % error.strerror) from error
        set_size(master, rows, cols)
        posix.set_blocking(master, False)
        stdin = posix.dup(master)
        fds.append(stdin)
        actions: list[Any] = [
            # Opened, not inherited: the first terminal that a session leader opens becomes its controlling terminal.
            (posix.POSIX_SPAWN_OPEN, 0, name, posix.O_RDWR, 0),
            (posix.POSIX_SPAWN_DUP2, 0, 1),
            (posix.POSIX_SPAWN_DUP2, 0, 2),
        ]
        pid = _start(program or argv[0], argv, env, actions)
    except BaseException:
        for fd in fds:
            posix.close(fd)
        raise
    # The slave stays open here: a program that closes its terminal and reopens it must not look as if it had ended.
    return Spawned(pid, {"stdout": master}, stdin, keep=slave)


def set_size(terminal: int, rows: int, cols: int) -> None:
    """Set the size of a terminal, and notify its foreground processes."""
    import fcntl  # noqa: PLC0415
    import sys  # noqa: PLC0415
    import termios  # noqa: PLC0415

    size = b"".join(number.to_bytes(2, sys.byteorder) for number in (rows, cols, 0, 0))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


def _start(program: bytes, argv: list[bytes], env: dict[bytes, bytes], actions: list[Any]) -> int:
    try:
        # vfork underneath: no page table is copied, and exec failures come back as errors, not as exit codes.
        return posix.posix_spawn(program, argv, env, file_actions=actions, setsid=True, setsigdef=_DEFAULT_AGAIN)
    except OSError as error:
        if error.errno == errno.ENOEXEC and program != _SHELL:
            # A script without a first line that names its interpreter, which every shell takes for its own.
            return _start(_SHELL, [_SHELL, program, *argv[1:]], env, actions)
        failure = from_os_error(error, "cannot start %s" % argv[0].decode("utf-8", "replace"))
        raise ToolError(_FAILURES.get(error.errno or 0, failure.code), failure.message) from error
