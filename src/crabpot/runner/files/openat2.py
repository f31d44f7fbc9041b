"""The system call openat2(2), Linux 5.6, which the standard library does not offer."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Openat2 = Callable[[int, bytes, int, int], int]

NO_MAGICLINKS = 0x02
NO_SYMLINKS = 0x04
BENEATH = 0x08
# The same on every architecture: it is newer than their common system call table.
_SYS_OPENAT2 = 437
_loaded: list[Openat2 | None] = []


def load() -> Openat2 | None:
    """Return the system call, or None if the kernel, a filter or this Python lacks it; failures are negative errors.

    Like a module it is loaded once: what was loaded before a fork is there after it.
    """
    if not _loaded:
        _loaded.append(_load())
    return _loaded[0]


def _load() -> Openat2 | None:
    try:
        # Importing `ctypes` takes 3 ms and more, the extension module beneath it 0.4 ms.
        import _ctypes  # noqa: PLC0415
    except ImportError:
        return None

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Long

    try:
        syscall = Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type]
    except OSError:
        return None
    number, size, get_errno = Long(_SYS_OPENAT2), Long(24), _ctypes.get_errno
    hows: dict[tuple[int, int], bytes] = {}

    def openat2(folder: int, path: bytes, flags: int, resolve: int) -> int:
        how = hows.get((flags, resolve))
        if how is None:
            how = b"".join(field.to_bytes(8, sys.byteorder) for field in (flags, 0, resolve))
            hows[flags, resolve] = how
        fd: int = syscall(number, folder, path, how, size)
        return fd if fd >= 0 else -get_errno()

    # The folder is ignored for an absolute path: -100 is AT_FDCWD.
    probe = openat2(-100, b"/", posix.O_PATH | posix.O_CLOEXEC, NO_MAGICLINKS)
    if probe < 0:
        return None
    posix.close(probe)
    return openat2
