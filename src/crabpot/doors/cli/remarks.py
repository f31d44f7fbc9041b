"""Show a call's remarks on standard error; those that are worth saying once, once for each state folder."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import TYPE_CHECKING

from crabpot.doors.cli.invocation import pasted
from crabpot.doors.cli.show import visible
from crabpot.errors import CrabpotError
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.sandboxes.remarks import Remark

_FOLDER = "shown"


def shower(state: str, *, raw: bool = False) -> Callable[[Remark], None]:
    """Return what shows remarks; on a terminal in raw mode a line also needs its return."""

    def show(remark: Remark) -> None:
        if remark.quiet and not (sys.stderr is not None and sys.stderr.isatty()):
            return
        if not remark.once or _is_new(state, remark.text):
            print(
                f"crabpot: note: {pasted(visible(remark.text))}",
                end="\r\n" if raw else "\n",
                file=sys.stderr,
                flush=True,
            )

    return show


def _is_new(state: str, text: str) -> bool:
    """Note that a remark was shown; return whether it had not been. One that cannot be noted is shown again."""
    folder = os.path.join(state, _FOLDER)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        take(folder)
        os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    except (OSError, CrabpotError):
        return True
    return True
