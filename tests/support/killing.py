"""Do work in a process that is killed in the middle of it."""

from __future__ import annotations

import os
import posix
import signal
import sys
import traceback
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# What changes something on the disk; the renames of ours are calls of the C library, seen by their Python function.
_CHANGING = frozenset(
    getattr(posix, name)
    for name in (
        "mkdir rename replace unlink rmdir symlink link mknod chmod fchmod chown fchown utime setxattr write pwrite "
        "truncate ftruncate fsync open"
    ).split()
)
_OURS = "crabpot/layers/changes/exchange.py"


def killed_at(moment: int, work: Callable[[], Any]) -> bool:
    """Do the work in a process that is killed at its Nth change of the disk; return whether it was."""
    child = os.fork()
    if child == 0:
        left = count(1)

        def look(frame: Any, event: str, what: Any) -> None:
            changing = event == "c_call" and what in _CHANGING
            ours = event == "return" and frame.f_code.co_filename.endswith(_OURS) and frame.f_code.co_name == "_rename"
            if (changing or ours) and next(left) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(look)
            work()
        except BaseException:  # noqa: BLE001  nothing may get back into pytest from here
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
