"""What systemd passes to a service and hears from it: sockets that listen already, and that it is ready."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_FIRST = 3


def passed_socket(path: str, environ: MutableMapping[str, str]) -> socket.socket | None:
    """Return the listening socket that systemd made at a path, or None if it passed none; it is passed once.

    The variables are removed: nothing that this process starts is meant.
    """
    count, meant = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if meant != str(os.getpid()) or not count.isdigit() or count == "0":
        return None
    found = [socket.socket(fileno=fd) for fd in range(_FIRST, _FIRST + int(count))]
    for one in found:
        one.set_inheritable(False)
    names = [one.getsockname() if one.family == socket.AF_UNIX else "" for one in found]
    if len(found) != 1 or not _same(str(names[0]), path):
        for one in found:
            one.close()
        raise CrabpotError(
            f"systemd passed {', '.join(map(str, names))}, and this gateway listens on {path}: "
            "write ListenStream= of the socket unit for this state folder (crabpot render systemd)"
        )
    return found[0]


def _same(name: str, path: str) -> bool:
    try:
        return os.path.samestat(os.stat(name), os.stat(path))
    except OSError:
        return False


def notify(text: str, environ: MutableMapping[str, str]) -> None:
    """Notify systemd about this service (`READY=1`); without it, nobody is told."""
    address = environ.pop("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling:
        try:
            telling.connect("\0" + address[1:] if address.startswith("@") else address)
            telling.sendall(text.encode())
        except OSError:
            return  # Its time-out says then that the service never became ready.
