"""What a gateway that was killed left behind in its state folder, and the processes that go with it.

A sandbox dies with its gateway, but for one moment: a bwrap that dies before it has told its child to go on
leaves that child waiting for ever. While openings are under way there is therefore a mark, on disk and in their
arguments, and the next gateway ends what is marked and has no owner any more.
"""

from __future__ import annotations

import contextlib
import os
import signal

from crabpot.backends.linux import owner
from crabpot.state.removal import remove_tree


class Mark:
    """Says that openings are under way. One for all that are so at a time.

    A file for each would cost a burst of them dearly: ext4 looks at every inode that was freed in the last seconds
    before it gives one out.
    """

    def __init__(self, home: str) -> None:
        self._home = home
        self._path = ""
        self._openings = 0

    def begin(self) -> str:
        """Say that one begins; what goes into its arguments."""
        if not self._openings:
            self._path = f"{self._home}/{owner.label(os.urandom(4).hex())}"
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._openings += 1
        return os.path.basename(self._path)

    def end(self) -> None:
        """Say that it is over, one way or the other."""
        self._openings -= 1
        if not self._openings:
            _unlink(self._path)


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def clear(home: str) -> None:
    """End and remove what dead gateways left in this folder. Cheap when there is nothing."""
    with os.scandir(home) as entries:
        abandoned = [entry for entry in entries if owner.is_label(entry.name) and not owner.is_alive(entry.name)]
    if not abandoned:
        return
    _kill({entry.name.encode() for entry in abandoned})
    for entry in abandoned:
        if entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):
                remove_tree(entry.path)
        else:
            _unlink(entry.path)


def _kill(names: set[bytes]) -> None:
    for pid in os.listdir("/proc"):
        if not (pid.isdigit() and _is_marked(pid, names)):
            continue
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(int(pid))
            try:
                # Once more, now that the number cannot pass to another.
                if _is_marked(pid, names):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)


def _is_marked(pid: str, names: set[bytes]) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return any(word.startswith(b"mark=") and word[5:] in names for word in file.read().split(b"\0"))
    except OSError:
        return False
