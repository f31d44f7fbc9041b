"""What a killed gateway left behind in its state folder, and the processes that belong to it.

A sandbox dies with its gateway, except for one moment: a bwrap that dies before it has told its child to continue
leaves that child waiting for ever. While openings are under way there is therefore a mark, on disk and in their
arguments, and the next gateway ends what is marked and no longer has an owner.
"""

from __future__ import annotations

import contextlib
import os
import signal

from crabpot.backends.linux import owner
from crabpot.state.removal import remove_tree


class Mark:
    """Marks openings under way: one mark for all that are concurrent.

    A file for each would slow down a burst of them: ext4 looks at every inode that was freed in the last seconds
    before it hands one out.
    """

    def __init__(self, home: str) -> None:
        self._home = home
        self._path = ""
        self._openings = 0

    def begin(self) -> str:
        """Note that one begins; return what goes into its arguments."""
        if not self._openings:
            self._path = f"{self._home}/{owner.label(os.urandom(4).hex())}"
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._openings += 1
        return os.path.basename(self._path)

    def end(self) -> None:
        """Note that one is over, whatever its outcome."""
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
                # Checked again, now that the pid cannot be reused.
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
