"""Carry out one command at the gateway that runs, or leave it to the whole program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` imports enumerations
import _socket
import os
import select
import sys

from crabpot.doors.thin.command import Command, ListeningPlace, NotForUs
from crabpot.runner.core.frames import FrameError, FrameReader, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_READ = 256 << 10
_READY_S = 5.0
_PROTOCOL = 1
_CREDENTIALS = 12  # struct ucred: pid, uid, gid


def main() -> NoReturn:
    """Run the program: what the thin client can do by itself, and by importing the rest all else."""
    try:
        _check_standard_streams()
        command = Command(sys.argv[1:])
        command.args()
        gateway = Connection(ListeningPlace(command.options))
    except (NotForUs, OSError, FrameError):
        _run_whole()
    from crabpot.doors.thin.running import run  # noqa: PLC0415  only now is it known to be needed

    code = run(gateway, command)
    # Nothing is left to tidy up, and an interpreter takes milliseconds to do so.
    os._exit(code)


def _run_whole() -> NoReturn:
    if sys.flags.no_site:
        import site  # noqa: PLC0415

        site.main()
    from crabpot.doors.cli.main import main as whole  # noqa: PLC0415

    whole()


def _check_standard_streams() -> None:
    """Leave it to the whole program to fill in for a standard stream that is closed."""
    for fd in (0, 1, 2):
        os.fstat(fd)


class Connection:
    """A greeted gateway of this caller's own."""

    def __init__(self, place: ListeningPlace) -> None:
        self.state = place.state
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        self.socket.settimeout(_READY_S)
        self.socket.connect(place.socket)
        said = self.socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS)
        if int.from_bytes(said[4:8], sys.byteorder) not in (os.geteuid(), 0):
            raise NotForUs
        self.reader = FrameReader()
        self.socket.sendall(encode({"op": "hello", "limits": {"output": 1 << 30}, **place.claims}))
        self.ready = self._frame()
        known = [name for name in place.claims if name in self.ready or "lingers" in self.ready]
        if self.ready.get("protocol") != _PROTOCOL or any(self.ready.get(name) != place.claims[name] for name in known):
            raise NotForUs
        self.socket.setblocking(False)

    def _frame(self) -> dict[str, Any]:
        while True:
            data = self.socket.recv(_READ)
            if not data:
                raise NotForUs
            for header, _ in self.reader.feed(data):
                return header

    def brought(self) -> dict[str, Any]:
        """Return the variables that this gateway takes from its callers, as a part of a frame."""
        names = self.ready.get("brings")
        return {} if not names else {"environ": {name: os.environ[name] for name in names if name in os.environ}}


class Sending:
    """What is on its way to the gateway: it is never waited for, since the gateway may be waiting for us."""

    def __init__(self, gateway: Connection) -> None:
        self._socket = gateway.socket
        self.waiting = bytearray()

    def send(self, data: bytes) -> None:
        """Send as much as the kernel takes, and keep the rest."""
        self.waiting += data
        self.go_on()

    def go_on(self) -> None:
        """Send more of what was kept."""
        try:
            while self.waiting:
                del self.waiting[: self._socket.send(self.waiting)]
        except BlockingIOError:
            pass

    @property
    def events(self) -> int:
        """What to wait for at the socket."""
        return select.POLLIN | (select.POLLOUT if self.waiting else 0)


class Ended(Exception):
    """A signal ends this program."""


def end_by_signals() -> None:
    """Raise Ended at a signal that ends a program, unless whoever started us has them ignored."""

    def end(number: int, _frame: object) -> None:
        raise Ended(number)

    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, end)


def is_in_background(fd: int) -> bool:
    """Return whether reading would stop the whole program: the terminal is for what is in its foreground."""
    return os.isatty(fd) and os.tcgetpgrp(fd) != os.getpgrp()


def write(fd: int, data: bytes) -> bytes:
    """Write all of it, at the pace of its reader: nothing is left."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
    return b""
