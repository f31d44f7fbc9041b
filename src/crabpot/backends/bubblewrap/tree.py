"""The tree of a sandbox, made by our own process from the very words that bwrap would be given.

Ships beside the seal, into the fork server alone: standard library only, Python 3.9 and newer. It runs in a mount
namespace of its own, before anything of the agent's is mounted. Every source is held as a mount that is attached
nowhere, by descriptor, before the host's tree is left; none is walked to afterwards. A word that is not known here ends
the sandbox.
"""

from __future__ import annotations

import posix
import sys

from . import seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = tuple[str, list[str], int]

_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_O_PATH = 0o10000000
_OPEN_TREE, _OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 428, 1, posix.O_CLOEXEC
_MOVE_MOUNT, _MOVE_FROM_DESCRIPTOR = 429, 0x4
_FSOPEN, _FSOPEN_CLOEXEC, _FSMOUNT, _FSMOUNT_CLOEXEC = 430, 1, 432, 1
_FSCONFIG, _FSCONFIG_TEXT, _FSCONFIG_CREATE = 431, 1, 6
_MOUNT_SETATTR = 442
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE, _MS_PRIVATE = 32, 4096, 16384, 1 << 19, 1 << 18
_MNT_DETACH = 2
_S_IFMT, _S_IFDIR = 0o170000, 0o040000
_DEFAULT_MODE = 0o755
_CLONE_NEWIPC, _CLONE_NEWUTS, _CLONE_NEWNET = 0x0800_0000, 0x0400_0000, 0x4000_0000

# How many words follow each one. What is not done here, every child of the fork server gets without being asked: a
# user and a pid namespace, a session and an environment of its own, an end with its parent.
_WORDS = {
    **dict.fromkeys(("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"), 0),
    **dict.fromkeys(("--new-session", "--die-with-parent", "--as-pid-1", "--clearenv"), 0),
    **dict.fromkeys(("--hostname", "--chdir", "--dir", "--proc", "--remount-ro", "--cap-drop", "--cap-add"), 1),
    **dict.fromkeys(("--setenv", "--ro-bind", "--bind", "--dev-bind", "--symlink", "--file"), 2),
    "--find": 4,
}
_NAMESPACES = {"--unshare-ipc": _CLONE_NEWIPC, "--unshare-uts": _CLONE_NEWUTS, "--unshare-net": _CLONE_NEWNET}
_CAPABILITIES = {"CAP_DAC_OVERRIDE": 1, "CAP_SETPCAP": 8, "CAP_SYS_ADMIN": 21}
_BINDS = {"--ro-bind": _RDONLY | _NOSUID | _NODEV, "--bind": _NOSUID | _NODEV, "--dev-bind": _NOSUID | _NOEXEC}


class Tree:
    """A tree that was made, and what is left to do when the agent's own folders are in it."""

    def __init__(self, words: list[str]) -> None:
        steps = list(_steps(words))
        self.namespaces = sum(_NAMESPACES.get(name, 0) for name, _, _ in steps)
        self.hostname = next((values[0] for name, values, _ in steps if name == "--hostname"), "")
        added = [values[0] for name, values, _ in steps if name == "--cap-add"]
        seal.keep_capabilities(tuple(_CAPABILITIES[name] for name in added))
        # The agent's own folders, by where they will be: the seal attaches them, when all else stands.
        self.found = {values[-1]: _find(*values[:-1]) for name, values, _ in steps if name == "--find"}
        # What is mounted from here on, the host never sees.
        seal.call("mount", None, b"/", None, _MS_SLAVE | _MS_REC, None)
        held = [_hold(name, values) for name, values, _ in steps]
        _leave_the_host()
        mask = posix.umask(0)
        for (name, values, mode), mount in zip(steps, held):  # noqa: B905  newer than Python 3.9
            if mount is not None:
                _attach(mount, values[-1])
            elif name in _MAKING:
                _MAKING[name](values, mode)
        posix.umask(mask)


def _steps(words: list[str]) -> Iterator[Step]:
    """Yield each option with its values, and the mode that it is given."""
    mode, rest = _DEFAULT_MODE, iter(words)
    for name in rest:
        if name == "--perms":
            mode = int(next(rest), 8)
            continue
        yield name, [next(rest) for _ in range(_WORDS[name])], mode
        mode = _DEFAULT_MODE


def _find(access: str, identity: str, path: str) -> int:
    """Return a mount of a folder of the host's, if it still is the one that was meant.

    A folder swapped for a link between check and use (CVE-2026-44112) is seen here. A later swap has no effect: by
    descriptor, what was compared is what is mounted.
    """
    descriptor = posix.open(path, _O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    found = posix.fstat(descriptor)
    if f"{found.st_dev}:{found.st_ino}" != identity:
        raise OSError(f"{path} is not the folder that was meant: it was swapped while the sandbox opened")
    mount = _clone(descriptor, "", _NOSUID | _NODEV | (_RDONLY if access == "ro" else 0))
    posix.close(descriptor)
    return mount


def _hold(name: str, values: list[str]) -> int | None:
    """Return a mount, attached nowhere, of what an option shows of the host or of the kernel, if it shows anything."""
    if name in _BINDS:
        return _clone(_AT_FDCWD, values[0], _BINDS[name])
    if name != "--proc":
        return None
    # Now: the kernel shows a new /proc only to who sees all of an old one.
    context = seal.call("syscall", _FSOPEN, b"proc", _FSOPEN_CLOEXEC)
    seal.call("syscall", _FSCONFIG, context, _FSCONFIG_TEXT, b"source", b"proc", 0)
    seal.call("syscall", _FSCONFIG, context, _FSCONFIG_CREATE, None, None, 0)
    mount = seal.call("syscall", _FSMOUNT, context, _FSMOUNT_CLOEXEC, _NOSUID | _NODEV | _NOEXEC)
    posix.close(context)
    return mount


def _clone(start: int, path: str, flags: int) -> int:
    """Return a copy of a mount and of what is mounted below it, with more flags and never fewer."""
    empty = 0 if path else _AT_EMPTY_PATH
    how = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | empty
    mount = seal.call("syscall", _OPEN_TREE, start, _raw(path), how)
    wanted = b"".join(word.to_bytes(8, sys.byteorder) for word in (flags, 0, _MS_PRIVATE, 0))
    seal.call("syscall", _MOUNT_SETATTR, mount, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, wanted, len(wanted))
    return mount


def _leave_the_host() -> None:
    """Have an empty folder in memory as the root, and nothing of the host's anywhere."""
    # Over /proc, which every host has; all that is wanted of the host is held already.
    seal.call("mount", b"tmpfs", b"/proc", b"tmpfs", _NOSUID | _NODEV, b"mode=0755")
    posix.chdir("/proc")
    seal.call("pivot_root", b".", b".")
    seal.call("umount2", b".", _MNT_DETACH)
    posix.chdir("/")


def _attach(mount: int, target: str) -> None:
    try:
        if posix.fstat(mount).st_mode & _S_IFMT == _S_IFDIR:
            posix.mkdir(target, 0o755)
        else:
            posix.close(posix.open(target, posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY | posix.O_CLOEXEC, 0o444))
    except FileExistsError:
        pass  # Another option has made it.
    seal.call("syscall", _MOVE_MOUNT, mount, b"", _AT_FDCWD, _raw(target), _MOVE_FROM_DESCRIPTOR)
    posix.close(mount)


def _folder(values: list[str], mode: int) -> None:
    try:  # noqa: SIM105  contextlib is not loaded here
        posix.mkdir(values[0], mode)
    except FileExistsError:
        pass  # Another option has made it on its way.


def _link(values: list[str], _mode: int) -> None:
    posix.symlink(values[0], values[1])


def _file(values: list[str], mode: int) -> None:
    source = int(values[0])
    target = posix.open(values[1], posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY | posix.O_CLOEXEC, mode)
    size = posix.fstat(source).st_size
    if posix.write(target, posix.pread(source, size, 0)) != size:
        raise OSError(f"{values[1]} could not be written whole")
    posix.close(target)
    posix.close(source)


def _remount_read_only(values: list[str], _mode: int) -> None:
    flags = _MS_REMOUNT | _MS_BIND | _RDONLY | _NOSUID | _NODEV
    seal.call("mount", None, _raw(values[0]), None, flags, None)


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


_MAKING: dict[str, Callable[[list[str], int], None]] = {
    "--dir": _folder,
    "--symlink": _link,
    "--file": _file,
    "--remount-ro": _remount_read_only,
}
