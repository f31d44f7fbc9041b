"""Landlock, Linux 5.13: a second wall around files, which the runner builds around itself and all that it starts.

If a mount were ever writable that should not be, this still holds. Processes within it cannot mount, and from ABI
version 6 on they reach no abstract socket and signal no process outside it, whatever network they share.
"""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_VERSION, _RULE_PATH_BENEATH = 1, 1
_O_PATH = 0o10000000
_KIND, _FOLDER, _LINK = 0o170000, 0o040000, 0o120000

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
# Removing, and creating everything but devices: bits 4 to 12 without MAKE_CHAR and MAKE_BLOCK.
_CHANGE_DIR = 0b1_0111_1011_0000
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPES = 0b11
# Before version 2, nothing can be renamed from one folder to another: no git and no editor works.
OLDEST, _WITH_TRUNCATE, _WITH_NETWORK, _WITH_IOCTL, WITH_SCOPES = 2, 3, 4, 5, 6
# Binding and connecting TCP sockets.
_TCP = 0b11


def version() -> int:
    """Return the ABI version that this kernel offers; 0 if there is none, or a filter hides it."""
    found = _syscall()(_CREATE_RULESET, None, 0, _CREATE_VERSION)
    return max(0, found)


def confine(  # noqa: PLR0913  the lists of one wall
    writable: tuple[str, ...],
    *,
    readable: tuple[str, ...] = ("/",),
    walkable: tuple[str, ...] = (),
    blank: tuple[str, ...] = (),
    run_written: bool = True,
    offline: bool = False,
) -> int:
    """Make everything read-only except below `writable`; return the ABI version used, 0 if there is none.

    What is below none of the lists is unreachable; below `walkable`, folders can be listed and programs run, but files
    not read. A `blank` file can be read while it is empty: by now its path may lead to another one. With `run_written`
    false, what can be written cannot be run. `offline` also blocks TCP, from version 4 on.

    Requires no-new-privileges, and cannot be undone. A failure after it began is an OSError: half a wall is none.
    """
    offered = version()
    if offered < OLDEST:
        return 0
    syscall = _syscall()
    handled = (1 << 13) - 1 | _REFER
    if offered >= _WITH_TRUNCATE:
        handled |= _TRUNCATE
    if offered >= _WITH_IOCTL:
        handled |= _IOCTL_DEV
    network = _TCP if offline and offered >= _WITH_NETWORK else 0
    scopes = _SCOPES if offered >= WITH_SCOPES else 0
    fields = (handled, network, scopes)[: 3 if scopes else 2 if network else 1]
    ruleset = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
    made = _checked(syscall(_CREATE_RULESET, ruleset, len(ruleset), 0))
    try:
        read = _EXECUTE | _READ_FILE | _READ_DIR
        write = read | _WRITE_FILE | _CHANGE_DIR | _REFER | _TRUNCATE | _IOCTL_DEV
        if not run_written:
            write &= ~_EXECUTE
        walk = _EXECUTE | _READ_DIR
        lists = ((walkable, walk), (readable, read), (writable, write))
        for path, access in ((path, access) for paths, access in lists for path in paths):
            _allow(syscall, made, path, access & handled)
        for path in blank:
            _allow(syscall, made, path, _READ_FILE, only_empty=True)
        _checked(syscall(_RESTRICT_SELF, made, 0))
    finally:
        posix.close(made)
    return offered


def forbid_running(places: tuple[str, ...]) -> bool:
    """Keep programs below these folders from being started, as a noexec mount would; return whether it could be done.

    A second list beside the one of `confine`: what it does not cover stays as it is. Unlike a mount, it does not stop
    the loader from mapping such a program (`/lib64/ld-linux-x86-64.so.2 /tmp/program`).
    """
    if version() < OLDEST:
        return False
    syscall = _syscall()
    made = _checked(syscall(_CREATE_RULESET, _EXECUTE.to_bytes(8, sys.byteorder), 8, 0))
    try:
        for path in _around(places):
            _allow(syscall, made, path, _EXECUTE)
        _checked(syscall(_RESTRICT_SELF, made, 0))
    finally:
        posix.close(made)
    return True


def _around(places: tuple[str, ...], below: str = "") -> list[str]:
    """Return what covers everything but these places: a rule cannot take back what one above it gives."""
    found = []
    for name in posix.listdir(below or "/"):
        path = below + "/" + name
        # A link is not followed: it may lead into one of these places, and what it leads to is listed itself.
        if path in places or posix.lstat(path).st_mode & _KIND == _LINK:
            continue
        if any(place.startswith(path + "/") for place in places):
            found += _around(places, path)
        else:
            found.append(path)
    return found


def _allow(syscall: Callable[..., int], ruleset: int, path: str, access: int, *, only_empty: bool = False) -> None:
    try:
        descriptor = posix.open(path, _O_PATH | posix.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        found = posix.fstat(descriptor)
        if only_empty and found.st_size:
            return
        if found.st_mode & _KIND != _FOLDER:
            access &= _OF_FILES
        # struct landlock_path_beneath_attr, which is packed: what is allowed, and where.
        rule = access.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        _checked(syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        posix.close(descriptor)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, "Landlock: " + posix.strerror(-result))
    return result


def _syscall() -> Callable[..., int]:
    """Return syscall(2), which returns a negative error where it fails."""
    # Importing `ctypes` takes 3 ms and more, the extension module beneath it 0.4 ms.
    import _ctypes  # noqa: PLC0415

    class Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
        _type_ = "l"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Long

    function = Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type]

    def call(*arguments: Any) -> int:
        found: int = function(*[Long(value) if type(value) is int else value for value in arguments])
        return found if found >= 0 else -_ctypes.get_errno()

    return call
