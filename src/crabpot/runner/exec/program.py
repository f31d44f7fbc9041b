"""The call `run`: one program by its argv, without a shell.

Only the gateway sends it: no agent has a tool of this name. On the host it starts the very file that was shown for
approval, in the folder where this runner was started. In a sandbox it starts a program by its absolute path, in a
folder of the sandbox, and all of its output is sent.
"""

from __future__ import annotations

import posix

from ..core.failure import ToolError, encode_text
from ..core.frames import FrameError
from ..core.hello import environment
from . import spawn
from .shell import Foreground, enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..core.call import Call
    from ..core.server import Runner

_IDENTITY = {"dev": "st_dev", "ino": "st_ino", "size": "st_size", "mtime_ns": "st_mtime_ns", "ctime_ns": "st_ctime_ns"}


def start(call: Call, runner: Runner) -> None:
    """Start the very file that `binary` describes, or in a sandbox the named program, or nothing."""
    folder = call.args.get("folder")
    here = posix.stat(".")
    if folder is not None and folder != [here.st_dev, here.st_ino]:
        raise ToolError("conflict", "the folder was replaced after it was shown; ask again")
    argv = [encode_text(word, "argv") for word in call.args["argv"]]
    binary = call.args.get("binary")
    if binary is None:
        _start_inside(call, runner, argv)
        return
    fd = _open(binary)
    try:
        # By its descriptor: whatever takes the name after this check is not what runs. A script is opened again by its
        # interpreter, which needs a name; only its owner and root can replace it in a trusted folder.
        script = posix.pread(fd, 2, 0) == b"#!"
        program = encode_text(binary["path"], "path") if script else b"/proc/self/fd/%d" % fd
        call.job = Foreground(
            call,
            runner,
            spawn.spawn(argv, runner.hello.env, stdin=call.input, program=program),
            stdin=None,
            paced=call.args.get("paced") is True,
        )
    finally:
        posix.close(fd)


def _start_inside(call: Call, runner: Runner, argv: list[bytes]) -> None:
    if not runner.hello.contained:
        raise ToolError("invalid_arguments", "on the host a program runs by its identity alone")
    if not argv[0].startswith(b"/"):
        # A name would be looked up on a PATH that begins with shims.
        raise ToolError("invalid_arguments", "argv does not begin with an absolute path")
    try:
        env = {**runner.hello.env, **environment(call.args.get("env", {}))}
    except FrameError as error:
        raise ToolError("invalid_arguments", str(error)) from error
    enter(call.args.get("cwd"), runner)
    call.job = Foreground(call, runner, spawn.spawn(argv, env, stdin=call.input), stdin=None, paced=call.stream)


def _open(binary: dict[str, Any]) -> int:
    try:
        fd = posix.open(binary["path"], posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError as error:
        raise ToolError("conflict", "%s: %s" % (binary["path"], error.strerror)) from error
    found = posix.fstat(fd)
    if any(getattr(found, of) != binary[name] for name, of in _IDENTITY.items()):
        posix.close(fd)
        raise ToolError("conflict", "%s was replaced after it was shown; ask again" % binary["path"])
    return fd
