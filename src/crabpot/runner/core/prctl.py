"""The runner's own settings by prctl(2), which the standard library does not offer."""

from __future__ import annotations

import posix

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def shield_and_adopt() -> None:
    """Shield this process from its own children, and make it the parent of every orphan below it.

    Not dumpable: what runs here has the runner's uid, and could otherwise open its memory and descriptors in /proc.
    Subreaper: a grandchild that double-forked comes back to the runner instead of going to pid 1, so waitpid alone
    tells whether anything is left of a call. Pid 1 is that parent anyway, and gVisor supports no other.
    """
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_CHILD_SUBREAPER, 1)):
        if not _set(option, value) and not (option == _PR_SET_CHILD_SUBREAPER and posix.getpid() == 1):
            raise OSError("prctl(%d) was refused" % option)


def forbid_privileges() -> None:
    """Keep programs that this process starts from gaining privileges by setuid; Landlock requires it first."""
    if not _set(_PR_SET_NO_NEW_PRIVS, 1):
        raise OSError("prctl(%d) was refused" % _PR_SET_NO_NEW_PRIVS)


def _set(option: int, value: int) -> bool:
    # Importing `ctypes` takes 3 ms and more, the extension module beneath it 0.4 ms.
    import _ctypes  # noqa: PLC0415

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
        _type_ = "l"

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    arguments = (Long(option), Long(value), Long(0), Long(0), Long(0))
    done: bool = _ctypes.call_cdeclfunction(prctl, arguments) == 0
    return done
