"""The last walls, put up from inside: what bwrap cannot mount, no capability, the filter; then the runner.

Ships into the sandbox beside the runner: standard library only, Python 3.9 and newer, almost nothing imported. It runs
as the first process of the sandbox, before anything of the agent's can, with CAP_SYS_ADMIN over the sandbox's own
namespaces and nothing else. Whatever fails here ends the sandbox. The gateway reads from outside what this process has
become before it sends the first frame to the runner.
"""

from __future__ import annotations

import _ctypes
import gc
import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READY = b"\0sealed\n"

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_MOVE = 1, 2, 4, 8, 32, 4096, 8192
_MNT_DETACH = 2
_O_PATH = 0o10000000
_MOVE_MOUNT, _MOVE_EMPTY_PATHS = 429, 0x4 | 0x40
_CLONE_NEWCGROUP = 0x0200_0000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAPABILITIES, _FEWEST_CAPABILITIES = 64, 38
_BPF_INSTRUCTION_SIZE = 8
_INT = 0xFFFF_FFFF
# An empty file takes no byte of a tmpfs's size, but about a kilobyte of the kernel's memory.
_BYTES_PER_INODE, _FEWEST_INODES = 2048, 4096


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001  ctypes itself takes 3 ms to import
    _type_ = "l"


class _Pointer(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
    _type_ = "z"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_LIBC = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None is the program itself


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library and return its result; OSError if that is -1."""
    function = _Function(_ctypes.dlsym(_LIBC, name))
    result = int(function(*[_Long(value) if type(value) is int else value for value in arguments]))
    # Most of them return an int, whose upper half is left as it was: -1 comes as 4294967295.
    if result & _INT == _INT:
        raise OSError(_ctypes.get_errno(), f"{name}{arguments}: {posix.strerror(_ctypes.get_errno())}")
    return result


def attach(order: str) -> None:
    """Attach a mount, given by its descriptor, at a path."""
    # By descriptor at both ends: where an agent can write, a link planted at the target must lead nowhere.
    descriptor, _, path = order.partition(":")
    target = posix.open(path, _O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    if posix.readlink(f"/proc/self/fd/{target}") != path:
        raise OSError(f"{path} is reached through a link")
    call("syscall", _MOVE_MOUNT, int(descriptor), b"", target, b"", _MOVE_EMPTY_PATHS)


def _folder(path: str) -> None:
    """Make the mount point of a folder, or of a file."""
    if path.startswith("+"):
        posix.close(posix.open(path[1:], posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY, 0o644))
    else:
        posix.mkdir(path, 0o755)


def _move(order: str) -> None:
    aside, _, path = order.partition(":")
    call("mount", aside.encode(), path.encode(), None, _MS_MOVE, None)


def _overlay(target: str) -> None:
    # Whiteouts and marks in user.*, which this namespace may write. No file of the layer names another one: what an
    # agent could forge there (redirect_dir, metacopy, index) is neither made nor followed.
    rules = "userxattr,redirect_dir=nofollow,metacopy=off,index=off,xino=off"
    # By descriptor: a path of the host's may have colons and commas in it, which mean something here.
    lower = posix.open(target, _O_PATH | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    layer = "upperdir=/crabpot/layer/upper,workdir=/crabpot/layer/work"
    options = f"lowerdir=/proc/self/fd/{lower},{layer},{rules}"
    flags = _MS_NOSUID | _MS_NODEV
    call("mount", b"overlay", target.encode(), b"overlay", flags, options.encode())
    posix.close(lower)


def _detach(path: str) -> None:
    call("umount2", path.encode(), _MNT_DETACH)


def _tmpfs(order: str) -> None:
    _mount_tmpfs(order, _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _tmpfs_exec(order: str) -> None:
    _mount_tmpfs(order, _MS_NOSUID | _MS_NODEV)


def _mount_tmpfs(order: str, flags: int) -> None:
    size, _, path = order.partition(":")
    inodes = max(int(size) // _BYTES_PER_INODE, _FEWEST_INODES)
    options = f"mode=1777,size={size},nr_inodes={inodes}"
    call("mount", b"tmpfs", path.encode(), b"tmpfs", flags, options.encode())


def _terminals(path: str) -> None:
    # An instance of its own, without the host's terminals and what could be typed into them (CVE-2017-5226).
    options = b"newinstance,ptmxmode=0666,mode=0620,max=256"
    call("mount", b"devpts", path.encode(), b"devpts", _MS_NOSUID | _MS_NOEXEC, options)


def _mask_file(path: str) -> None:
    call("mount", b"/dev/null", path.encode(), None, _MS_BIND, None)
    _lock_device(path)


def _mask_folder(path: str) -> None:
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    call("mount", b"tmpfs", path.encode(), b"tmpfs", flags, b"mode=0555,nr_inodes=1")


def _lock(path: str) -> None:
    call("mount", path.encode(), path.encode(), None, _MS_BIND, None)
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    call("mount", None, path.encode(), None, flags, None)


def _lock_device(path: str) -> None:
    # The node is the host's own: read-only keeps its times and mode out of reach; the device still works.
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NOEXEC
    call("mount", None, path.encode(), None, flags, None)


def _join(descriptor: str) -> None:
    # "0" is the writer itself: in version 1's `tasks` that avoids a lock that costs a rare mover 10 ms.
    posix.write(int(descriptor), b"0")


def _hide_groups(_: str) -> None:
    call("unshare", _CLONE_NEWCGROUP)


def _data(size: str) -> None:
    import resource  # noqa: PLC0415  the runner has loaded it by now

    resource.setrlimit(resource.RLIMIT_DATA, (int(size), int(size)))


def _oom_score(score: str) -> None:
    descriptor = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(descriptor, score.encode())
    except PermissionError:
        pass  # Only lowering it is refused: the gateway's own is higher already.
    finally:
        posix.close(descriptor)


def _expect(order: str) -> None:
    # A folder swapped for a link between check and use (CVE-2026-44112).
    device, inode, path = order.split(":", 2)
    found = posix.stat(path)
    if (found.st_dev, found.st_ino) != (int(device), int(inode)):
        raise OSError(f"{path} is not the folder that was meant: it was swapped while the sandbox opened")


def _drop(_: str) -> None:
    for capability in range(_CAPABILITIES):
        try:
            call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            if capability < _FEWEST_CAPABILITIES:
                raise
            break  # This kernel has no more of them.
    call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    keep_capabilities(())


def keep_capabilities(numbers: tuple[int, ...]) -> None:
    """Keep these, permitted and effective, and no other; none is inherited."""
    header = _CAPABILITY_VERSION_3.to_bytes(4, sys.byteorder) + bytes(4)
    mask = sum(1 << number for number in numbers).to_bytes(4, sys.byteorder)
    call("capset", header, mask + mask + bytes(16))


def _filter(path: str) -> None:
    program = _content(path)
    # struct sock_fprog, by its bytes: a Structure would import ctypes after all, from Python 3.14 on.
    where = bytes(_Pointer(program))
    length = (len(program) // _BPF_INSTRUCTION_SIZE).to_bytes(2, sys.byteorder).ljust(len(where), b"\0")
    call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, length + where, 0, 0)


def _mark(_: str) -> None:
    """Keep the mark in the arguments, by which it is found should it be left without an owner."""


_ORDERS: dict[str, Callable[[str], None]] = {
    "mark": _mark,
    "attach": attach,
    "overlay": _overlay,
    "detach": _detach,
    "join": _join,
    "hide-groups": _hide_groups,
    "tmpfs": _tmpfs,
    "folder": _folder,
    "move": _move,
    "tmpfs-exec": _tmpfs_exec,
    "terminals": _terminals,
    "mask-file": _mask_file,
    "mask-folder": _mask_folder,
    "lock": _lock,
    "lock-device": _lock_device,
    "expect": _expect,
    "data": _data,
    "oom-score": _oom_score,
    "drop": _drop,
    "filter": _filter,
}


def load(folder: str, *, source: str | None = None) -> Callable[[list[str]], int]:
    """Import the runner: its start-up from one file in `source`, the rest from its folder when a call needs it."""
    # Not at the very end: a runner that cannot be imported reports it while the gateway still listens.
    gc.disable()  # Nothing that is made here ever dies, and looking for what did takes a tenth of the time.
    package: Any = type(sys)("crabpot_runner")
    package.__path__ = [folder]
    sys.modules["crabpot_runner"] = package
    for name, path, code in marshal.loads(_content((source or folder) + "/start.bin")):  # noqa: S302  made by the gateway
        module: Any = type(sys)("crabpot_runner." + name)
        above, _, leaf = module.__name__.rpartition(".")
        if path.endswith("/__init__.py"):
            module.__path__ = [folder + "/" + leaf]
            module.__package__ = module.__name__
        else:
            module.__package__ = above
        sys.modules[module.__name__] = module
        setattr(sys.modules[above], leaf, module)
        exec(code, module.__dict__)  # noqa: S102  this is how importing ends
    gc.enable()
    run: Callable[[list[str]], int] = package.core.server.main
    return run


def _content(path: str) -> bytes:
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    size = posix.fstat(descriptor).st_size
    data = posix.read(descriptor, size)
    posix.close(descriptor)
    if not size or len(data) != size:
        raise OSError(f"{path} is incomplete")
    return data


def main(
    argv: list[str],
    run: Callable[[list[str]], int] | None = None,
    more: dict[str, Callable[[str], None]] | None = None,
) -> int:
    """Carry out the orders in the order given, report it, and become the runner.

    Who has the runner loaded already passes it as `run`, and what only it can do as `more` orders.
    """
    wire, *orders = argv
    known = {**_ORDERS, **(more or {})}
    for order in orders:
        name, _, value = order.partition("=")
        if name != "load":
            known[name](value)
        elif run is None:
            run = load(value)
    assert run is not None
    posix.write(2, READY)
    null = posix.open("/dev/null", posix.O_RDWR)
    for standard in (0, 1, 2):
        posix.dup2(null, standard)
    return run(["--fd", wire])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
