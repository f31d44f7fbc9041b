"""The fork server: a process that has the runner loaded, and whose children become sandboxes in the place of bwrap's.

Runs on the host as the user of the sandboxes: standard library only, Python 3.9 and newer. It is the first process of a
pid namespace, in a user namespace of its own: when it ends, and it ends with the gateway, the kernel ends every sandbox
that it made. It never reads what a sandbox is to be: that goes to the child alone, by a socket of its own. So what one
sandbox was told, no other has in its memory.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import _socket
import fcntl
import gc
import posix
import select
import sys

from . import seal
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READY = b"ready"
# Where the descriptors of an order begin: the child has closed all others, and the kernel numbers from the lowest.
FIRST = 3
MOST = 253  # The kernel takes no more descriptors with one message.

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x0002_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000
_PR_SET_NO_NEW_PRIVS = 38
_SIOCSIFFLAGS, _IFF_UP_RUNNING, _IFREQ = 0x8914, 0x41, 40
_LONGEST_ORDER = 1 << 20
# What follows `--` begins with an interpreter, two switches and a program: the seal, which is loaded here already.
_STARTS = 5


def main(control: int, gateway: int, bundle: int, runner: str) -> None:
    """Serve until the gateway, a pidfd, is gone or closes its end of `control`.

    `bundle` is the folder of the runner's files, `runner` their place inside.
    """
    seal.call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    source = f"/proc/self/fd/{bundle}/runner"
    run = seal.load(runner, source=source)
    _load_tools(source, runner)
    _close_all_but(control, gateway)
    # Nobody waits for its children: their ends are the gateway's to see.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # Otherwise each child's first look for garbage would copy every page.
    _serve(_socket.socket(fileno=control), gateway, run)


def _load_tools(source: str, runner: str) -> None:
    """Import what a runner imports for its first calls, from where the files are now."""
    _move_packages(runner, source)
    sys.modules["crabpot_runner.core.tools"].Tools().load()
    # The rest is imported inside, when a call needs it.
    _move_packages(source, runner)
    for path in [path for path in sys.path_importer_cache if path.startswith(source)]:
        del sys.path_importer_cache[path]


def _move_packages(old: str, new: str) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("crabpot_runner") and hasattr(module, "__path__"):
            module.__path__ = [path.replace(old, new, 1) for path in module.__path__]


def _close_all_but(*kept: int) -> None:
    for name in posix.listdir("/proc/self/fd"):
        if int(name) >= FIRST and int(name) not in kept:
            try:
                posix.close(int(name))
            except OSError:
                continue  # The one that the listing itself used.


def _serve(control: _socket.socket, gateway: int, run: Callable[[list[str]], int]) -> None:
    own = posix.open("/proc/self/ns/pid", posix.O_RDONLY | posix.O_CLOEXEC)
    # Both: a process that the gateway forked holds the socket open, too.
    waiting = select.poll()
    for fd in (control.fileno(), gateway):
        waiting.register(fd, select.POLLIN)
    control.send(READY)
    # What it printed so far was the reason for a failure.
    null = posix.open("/dev/null", posix.O_RDWR)
    for standard in (0, 1, 2):
        posix.dup2(null, standard)
    posix.close(null)
    while gateway not in [fd for fd, _ in waiting.poll()]:
        _, given, _, _ = control.recvmsg(1, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
        if not given:
            return
        order = int.from_bytes(given[0][2], sys.byteorder)
        try:
            seal.call("unshare", _CLONE_NEWPID)
            if posix.fork() == 0:
                _become(order, [control.fileno(), gateway, own, order], run)
        except OSError as error:
            # Too many processes, or too little memory: one sandbox less, and no end of all the others.
            _report(order, error)
        finally:
            seal.call("setns", own, _CLONE_NEWPID)
            posix.close(order)


def _become(order: int, inherited: list[int], run: Callable[[list[str]], int]) -> None:
    """Become a sandbox, the first process of a pid namespace; or end, and say why."""
    code = 1
    try:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        posix.setsid()
        posix.dup2(order, 2)
        for fd in inherited:
            posix.close(fd)
        words = _receive(2)
        seal.call("unshare", _CLONE_NEWNS)
        end = words.index("--")
        tree = Tree(words[:end])

        def attach(value: str) -> None:
            target = value.partition(":")[2]
            seal.attach(f"{tree.found[target]}:{target}" if target in tree.found else value)

        code = seal.main(words[end + _STARTS :], run, {"attach": attach, "isolate": lambda _: _isolate(tree)})
    except BaseException as error:  # noqa: BLE001  whatever it is, there is no sandbox
        _report(2, error)
    finally:
        posix._exit(code)  # noqa: SLF001  what the server would do at its end is not for its children


def _report(descriptor: int, error: BaseException) -> None:
    try:  # noqa: SIM105  contextlib is not loaded here
        posix.write(descriptor, (str(error) or type(error).__name__).encode("utf-8", "surrogateescape"))
    except OSError:
        pass  # Whoever asked is gone.


def _receive(descriptor: int) -> list[str]:
    """Return the words of one order, whose descriptors are then this process's, from FIRST on."""
    order = _socket.socket(fileno=descriptor)
    room = _socket.CMSG_SPACE(4 * MOST)
    data, given, flags, _ = order.recvmsg(_LONGEST_ORDER, room, _socket.MSG_CMSG_CLOEXEC)
    order.detach()
    size = sum(len(numbers) for _, _, numbers in given)
    received = b"".join(numbers[: len(numbers) // 4 * 4] for _, _, numbers in given)
    expected = b"".join(fd.to_bytes(4, sys.byteorder) for fd in range(FIRST, FIRST + size // 4))
    if flags & (_socket.MSG_TRUNC | _socket.MSG_CTRUNC) or received != expected:
        raise OSError("the order did not arrive whole")
    return data.decode("utf-8", "surrogateescape").split("\0")


def _isolate(tree: Tree) -> None:
    """Enter the namespaces of one sandbox, after the last mount.

    Its mount namespace belongs to the user namespace of the server, over which nothing inside ever has a capability.
    """
    uid, gid = posix.getuid(), posix.getgid()
    seal.call("unshare", _CLONE_NEWUSER | tree.namespaces)
    for name, number in (("uid_map", uid), ("gid_map", gid)):
        descriptor = posix.open(f"/proc/self/{name}", posix.O_WRONLY | posix.O_CLOEXEC)
        posix.write(descriptor, f"{number} {number} 1".encode())
        posix.close(descriptor)
    if tree.namespaces & _CLONE_NEWNET:
        loopback = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
        request = b"lo".ljust(16, b"\0") + _IFF_UP_RUNNING.to_bytes(2, sys.byteorder)
        fcntl.ioctl(loopback.fileno(), _SIOCSIFFLAGS, request.ljust(_IFREQ, b"\0"))
        loopback.close()
    if tree.hostname:
        _socket.sethostname(tree.hostname)
