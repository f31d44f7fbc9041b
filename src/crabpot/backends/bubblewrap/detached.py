"""Mounts that root creates detached, for the sandbox, and nobody else, to attach.

A dropped user cannot walk to what lies in root's private folders, and bwrap walks even to a descriptor. Such
a mount needs no walking, and no time passes between check and use. Kernel 5.12 and newer.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache

_OPEN_TREE, _MOUNT_SETATTR = 428, 442
_OPEN_TREE_CLONE = 1
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_RDONLY, _NOSUID, _NODEV = 1, 2, 4
_IDMAP = 0x0010_0000
_MS_PRIVATE = 1 << 18


def clone(fd: int, *, read_only: bool, alone: bool = False, ids: int | None = None) -> int:
    """Return a mount of what a descriptor stands for and of what is mounted below it; OSError if that is impossible.

    `alone` leaves out what is mounted below it. `ids`, a user namespace, says whose its files seem to be.
    """
    deep = 0 if alone else _AT_RECURSIVE
    mount = _syscall(_OPEN_TREE, fd, b"", _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | deep)
    try:
        # Private: what the host mounts below it later stays the host's. The flags hold for the whole tree.
        wanted = _NOSUID | _NODEV | (_RDONLY if read_only else 0) | (0 if ids is None else _IDMAP)
        attributes = struct.pack("=QQQQ", wanted, 0, _MS_PRIVATE, ids or 0)
        _syscall(_MOUNT_SETATTR, mount, b"", _AT_EMPTY_PATH | deep, attributes, len(attributes))
    except OSError:
        os.close(mount)
        raise
    return mount


@cache
def _libc() -> ctypes.CDLL:
    # Cached: ctypes makes a class for every library that it loads, which takes longer than the system call.
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | bytes) -> int:
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc().syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
