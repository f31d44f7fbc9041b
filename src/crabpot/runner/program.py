"""The call `run`: one program by its words, without a shell, in the folder where this runner was started.

Only a runner on the host takes it, from the gateway alone: no agent has a tool of this name.
"""

from __future__ import annotations

import posix

from . import spawn
from .failure import ToolError, encode_text
from .shell import Foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .call import Call
    from .server import Runner

_IDENTITY = {"dev": "st_dev", "ino": "st_ino", "size": "st_size", "mtime_ns": "st_mtime_ns", "ctime_ns": "st_ctime_ns"}


def start(call: Call, runner: Runner) -> None:
    """Starts the very file that `binary` describes, or nothing."""
    folder = call.args.get("folder")
    here = posix.stat(".")
    if folder is not None and folder != [here.st_dev, here.st_ino]:
        raise ToolError("conflict", "the folder was replaced after it was shown; ask again")
    argv = [encode_text(word, "argv") for word in call.args["argv"]]
    binary = call.args["binary"]
    fd = _open(binary)
    try:
        # By its descriptor: whatever takes the name after this look is not what runs. A script is opened once more by
        # its interpreter, which needs a name; nobody but its owner and root can replace it in a trusted folder.
        script = posix.pread(fd, 2, 0) == b"#!"
        program = encode_text(binary["path"], "path") if script else b"/proc/self/fd/%d" % fd
        call.job = Foreground(
            call,
            runner,
            lambda: spawn.spawn(argv, runner.hello.env, stdin=call.input, program=program),
            stdin=None,
            paced=call.args.get("paced") is True,
        )
    finally:
        posix.close(fd)


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
