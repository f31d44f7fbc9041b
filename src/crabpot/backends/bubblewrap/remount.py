"""Let a live sandbox see what the host replaced, created or deleted in a folder under review.

An overlay remembers what it looked up. Remounting it, in place and with nothing unmounted, makes the kernel forget
that; /tmp, processes and open files stay as they are. Only who made the sandbox may enter its namespaces to do so.

The agent may have put something else in the folder's place, where the folders on the way are its own (below /tmp): the
flags of an overlay on / would make that writable, and those on /tmp would let programs in it run. So it is remounted by
descriptor, and only if it is an overlay; there is one in a sandbox.
"""

from __future__ import annotations

import sys

from crabpot.backends.linux import processes

_TIMEOUT_S = 10.0
# CLONE_NEWUSER, CLONE_NEWNS, and MS_REMOUNT with the flags that the mount has: nosuid, nodev. Not with ctypes, which
# takes longer to import than all of this.
_PROGRAM = """
import _ctypes, os, sys
class Long(_ctypes._SimpleCData): _type_ = "l"
class Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = Long
libc = _ctypes.dlopen(None, 0)
def call(name, *arguments):
    if Function(_ctypes.dlsym(libc, name))(*[Long(one) if type(one) is int else one for one in arguments]) == -1:
        sys.exit(name + ": " + os.strerror(_ctypes.get_errno()))
call("setns", int(sys.argv[1]), 0x10000000)
call("setns", int(sys.argv[2]), 0x00020000)
folder = os.open(sys.argv[3], os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
about = bytes(256)  # Filled by the kernel, its type first.
call("fstatfs", folder, about)
if int.from_bytes(about[:8], sys.byteorder) != 0x794c7630:
    sys.exit("no overlay is there")
os.fchdir(folder)
call("mount", None, b".", None, 32 | 2 | 4, None)
"""


async def remount(maker: int, pidfd: int, target: str) -> str | None:
    """Remount the overlay at a path inside the sandbox that a process is in; return why that failed, or None.

    `maker` is a process in the user namespace in which the overlay was mounted.
    """
    argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(maker), str(pidfd), target]
    done = await processes.run(argv, timeout_s=_TIMEOUT_S, fds=(maker, pidfd))
    return None if done.code == 0 else done.output.decode("utf-8", "replace").strip()[-400:]
