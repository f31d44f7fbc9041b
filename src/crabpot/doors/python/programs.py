"""Which programs have sandboxes of their own: what a dead one left in the state folder is found, and removed."""

from __future__ import annotations

import atexit
import fcntl
import os
import sys
import time
from contextlib import suppress

from crabpot.decide import sessions
from crabpot.layers.snapshots import forget_all as forget_snapshots
from crabpot.sandboxes import private_folders
from crabpot.state.ownership import make_own

_FOLDER = "programs"
# The sockets of shells that programs offer to their user.
SHELLS = "shells"
_NAME_LENGTH = 16
_LONGEST_WAIT_S, _POLL_S = 30.0, 0.05


class Program:
    """This program's claim on a state folder: a file that it keeps locked for as long as it lives."""

    def __init__(self, state: str) -> None:
        make_own(state)
        folder = os.path.join(state, _FOLDER)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        self._state = state
        self._name = os.urandom(_NAME_LENGTH // 2).hex()
        self._open = 0
        self.pid = os.getpid()
        handle = os.open(os.path.join(folder, self._name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        reap(state)
        atexit.register(self._leave)

    def new_key(self) -> str:
        """Return the session key of one more sandbox of this program."""
        self._open += 1
        return sessions.of_box(self._name + os.urandom(8).hex())

    def socket_path(self) -> str:
        """Return where a shell of this program may have its socket."""
        with suppress(FileExistsError):
            os.mkdir(os.path.join(self._state, SHELLS), 0o700)
        return os.path.join(self._state, SHELLS, self._name + os.urandom(8).hex())

    def closed(self) -> None:
        """Note that one of its sandboxes is gone, with its files."""
        self._open -= 1

    def _leave(self) -> None:
        path = os.path.join(self._state, _FOLDER, self._name)
        if os.getpid() != self.pid:
            return
        if not self._open:
            with suppress(OSError):
                os.unlink(path)
            return
        # The sandboxes end with this process, a moment after all that it could do itself.
        import subprocess  # noqa: PLC0415  a program that closes what it opens never needs it

        code = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        subprocess.Popen(
            # -P: an agent may have put a module of our name into the current folder.
            [sys.executable, "-P", "-m", "crabpot.doors.python.programs", self._state, self._name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (code, os.environ.get("PYTHONPATH"))))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


_programs: dict[str, Program] = {}


def this_program(state: str) -> Program:
    """Return this program's claim on a state folder; a forked process makes one of its own."""
    known = _programs.get(state)
    if known is None or known.pid != os.getpid():
        known = _programs[state] = Program(state)
    return known


def reap(state: str) -> None:
    """Remove the private folders of programs that ended without closing their sandboxes."""
    alive: dict[str, bool] = {}

    def left(kept: private_folders.Kept) -> bool:
        program = sessions.program_of(kept.scope_key)
        if program is None:
            return False
        if program not in alive:
            alive[program] = _lives(state, program)
        return not alive[program]

    for kept in private_folders.remove(state, left):
        forget_snapshots(state, kept.scope_key)
    for folder in (_FOLDER, SHELLS):
        for name in _names(os.path.join(state, folder)):
            program = name[:_NAME_LENGTH]
            if not alive.get(program, _lives(state, program)):
                with suppress(OSError):
                    os.unlink(os.path.join(state, folder, name))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _lives(state: str, program: str) -> bool:
    try:
        handle = os.open(os.path.join(state, _FOLDER, program), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _reap_after(state: str, program: str) -> None:
    """Remove what a program left, once it has ended."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while _lives(state, program) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    reap(state)


if __name__ == "__main__":
    _reap_after(*sys.argv[1:3])
