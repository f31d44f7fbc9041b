"""Commands that are too long for one frame, or for one argument of the kernel's: they go in as a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Write = Callable[[str, bytes], Awaitable[None]]

# The kernel takes no argument of 128 KiB or more, and a frame no line of more than 1 MiB, escaped.
_LONGEST_TEXT, _LONGEST_ARGV = 120 * 1024, 128 * 1024

_RUN = (
    "import os, sys; words = open(sys.argv[1], 'rb').read().split(b'\\0'); os.unlink(sys.argv[1]); "
    "os.execvp(words[0], words)"
)


async def carried(command: str | list[str], write: Write) -> str | list[str]:
    """Return the command, or a short one that runs it from a file, which it removes first."""
    length = len(command.encode("utf-8", "surrogateescape")) if isinstance(command, str) else sum(map(len, command))
    if length < (_LONGEST_TEXT if isinstance(command, str) else _LONGEST_ARGV):
        return command
    path = f"/tmp/.crabpot-{os.urandom(8).hex()}"  # noqa: S108  inside the sandbox, where it is private
    if isinstance(command, str):
        await write(path, f"rm -f {path}\n{command}".encode("utf-8", "surrogateescape"))
        return f". {path}"
    await write(path, "\0".join(command).encode("utf-8", "surrogateescape"))
    return ["python3", "-I", "-S", "-c", _RUN, path]
