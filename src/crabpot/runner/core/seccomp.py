"""Loading a system call filter into this very process, for a runner that nobody outside gave one."""

from __future__ import annotations

import sys

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_INSTRUCTION_SIZE = 8


def install(program: bytes) -> None:
    """Apply a filter (an array of struct sock_filter) to this process and all that it starts, for good.

    Requires no-new-privileges. OSError if the kernel does not take it.
    """
    import _ctypes  # noqa: PLC0415  `ctypes` itself takes 3 ms and more to import

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
        _type_ = "l"

    class Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
        _type_ = "z"

    # struct sock_fprog, by its bytes.
    where = bytes(Pointer(program))
    length = (len(program) // _INSTRUCTION_SIZE).to_bytes(2, sys.byteorder).ljust(len(where), b"\0")
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    arguments = (Long(_PR_SET_SECCOMP), Long(_SECCOMP_MODE_FILTER), Pointer(length + where), Long(0), Long(0))
    if not program or _ctypes.call_cdeclfunction(prctl, arguments) != 0:
        raise OSError("the kernel does not take the system call filter")
