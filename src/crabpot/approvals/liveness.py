"""Find out which gateways of a state folder are alive: each holds the lock on one byte of a file.

The kernel releases the lock when the process ends, however it ends, so no list of process ids can go stale.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# struct flock, padded: l_type, l_whence, l_start, l_len, l_pid. The open file holds the lock, not the process, which
# would lose it as soon as any part of it closes the same file.
_FLOCK = struct.Struct("hhqqi4x")


class Liveness:
    """The lock file of one state folder, opened once."""

    def __init__(self, file: str) -> None:
        # O_NOFOLLOW: a link here could name somebody else's file.
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def announce(self, number: int) -> None:
        """Lock a gateway's byte until this process ends; OSError if another gateway has that number."""
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))

    def lives(self, number: int) -> bool:
        """Return whether another gateway holds its byte; this process's own lock is not seen."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
        return bool(_FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude every other process from the block: byte 0, which belongs to no gateway, is the lock."""
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        try:
            yield
        finally:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0))

    def close(self) -> None:
        """Close the file and release its locks."""
        os.close(self._fd)
