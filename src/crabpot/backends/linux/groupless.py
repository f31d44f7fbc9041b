"""A user namespace in which an ordinary user may give up groups: made once, entered by each sandbox.

In a namespace of one's own making the kernel lets nobody drop a group, since a file may deny its group what it allows
to others. It does where a setuid helper (newgidmap, for users with subordinate ids) mapped the groups.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from functools import cache
from typing import TYPE_CHECKING

from crabpot.backends.linux.kernel_files import read
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    import subprocess

    from crabpot.spec.spec import User

_ANSWER_S = 20.0


@cache
def namespace() -> int | None:
    """Return a descriptor of it, or None where this user cannot make one; it lives as long as this process."""
    # Slow to import, and only for users with groups to give up.
    import shutil  # noqa: PLC0415
    import subprocess  # noqa: PLC0415

    unshare = shutil.which("unshare", path=TRUSTED_PATH)
    if unshare is None or _enter() is None:
        return None
    command = [unshare, "--user", "--map-current-user", "--map-groups=auto", "cat"]
    started = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": TRUSTED_PATH},
        start_new_session=True,
    )
    with started:
        assert started.stdin is not None
        assert started.stdout is not None
        try:
            # An answer means that the maps are written: before that, it is still another program.
            os.write(started.stdin.fileno(), b"x")
            if not _answers(started) or read(f"/proc/{started.pid}/setgroups") != "allow\n":
                return None
            return os.open(f"/proc/{started.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        finally:
            # unshare's own helper too: where no namespace may be made, it waits forever and holds our pipe.
            with contextlib.suppress(OSError):
                os.killpg(started.pid, signal.SIGKILL)


def _answers(started: subprocess.Popen[bytes]) -> bool:
    """Return whether it echoes; not if it ends, or takes too long."""
    assert started.stdout is not None
    said, ended = started.stdout.fileno(), os.pidfd_open(started.pid)
    try:
        waiting = select.poll()
        waiting.register(said, select.POLLIN)
        waiting.register(ended, select.POLLIN)
        ready = [fd for fd, _ in waiting.poll(_ANSWER_S * 1000)]
    finally:
        os.close(ended)
    return said in ready and os.read(said, 1) == b"x"


@cache
def _enter() -> str | None:
    import shutil  # noqa: PLC0415  as above

    return shutil.which("nsenter", path=TRUSTED_PATH)


def entered(*, groupless: bool) -> list[int]:
    """Return the namespace to enter where groups are given up; OSError if they cannot be any more."""
    if not groupless:
        return []
    found = namespace()
    if found is None:
        raise OSError("the user's other groups could be given up before, and cannot be any more")
    return [found]


def entering(descriptor: int, user: User) -> list[str]:
    """Return the command that starts what follows in it, without any group but the user's own."""
    command = _enter()
    assert command is not None
    return [command, f"--user=/proc/self/fd/{descriptor}", f"--setuid={user.uid}", f"--setgid={user.gid}", "--"]
