"""The gateway's end of fork servers: one for each user that sandboxes run as, started when it is first needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import weakref
from functools import cache
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import render
from crabpot.backends.bubblewrap.forks import READY
from crabpot.backends.linux import groupless as given_up
from crabpot.backends.linux import owner, processes, procs
from crabpot.backends.linux.held_files import Executable, Fds
from crabpot.errors import SandboxUnavailable
from crabpot.settings import TRUSTED_PATH
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.backends.bubblewrap.bundle import Bundle
    from crabpot.backends.bubblewrap.leftovers import Mark
    from crabpot.spec.spec import User

_START_TIMEOUT_S, _END_TIMEOUT_S = 20.0, 1.0
# An ordinary user may have no more descriptors on their way than a process may have open, and a child gets some twenty.
# One that hangs, as on a dead file server, keeps its turn from the others for no longer than this.
_AT_ONCE, _TURN_S = 16, 1.0
_LONGEST_MESSAGE, _LONGEST_REASON = 65536, 400
_CREDENTIALS = struct.Struct("=iII")
# First process of a pid namespace in a user namespace of its own, where the present user is the only one; it is killed
# with this program.
_NAMESPACES = ("--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--kill-child", "--")
# The parts of the program come from the bundle by its descriptor: its path may lead through a folder that the user of
# the sandboxes cannot enter.
_PROGRAM = """
import sys
control, gateway, bundle = map(int, sys.argv[1:4])
package = type(sys)("walls")
package.__path__ = ["/proc/self/fd/%d" % bundle]
sys.modules["walls"] = package
from walls import forks
forks.main(control, gateway, bundle, sys.argv[4])
"""


class ForkServer:
    """A fork server that is ready. It ends with the last reference to it, and its sandboxes with it."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, pid: int, mark: Mark) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.namespaces = procs.namespaces(pid)
        self._control = control
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.end = weakref.finalize(self, _end, process, control, self.pidfd, mark, os.getpid())

    def lives(self) -> bool:
        """Return whether it has not ended."""
        return not processes.has_ended(self.pidfd)

    async def begin(self) -> asyncio.TimerHandle:
        """Wait for a turn to have a child forked; it ends with `finish`, or a moment later at the latest."""
        await self._turns.acquire()
        return asyncio.get_running_loop().call_later(_TURN_S, self._turns.release)

    def finish(self, turn: asyncio.TimerHandle) -> None:
        """End a turn."""
        if asyncio.get_running_loop().time() < turn.when():
            turn.cancel()
            self._turns.release()

    def fork(self, words: Sequence[str], fds: Sequence[int]) -> socket.socket:
        """Have it fork a child for these words; return what the child reports to. OSError if it is gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                ours.setblocking(False)
                # The kernel names who reports, in numbers of this process's own.
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                _send(ours, "\0".join(words).encode("utf-8", "surrogateescape"), fds)
                _send(self._control, b"x", [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return ours


class ForkServers:
    """The fork servers of one gateway and one event loop."""

    def __init__(self, bundle: Bundle, mark: Mark) -> None:
        self.loop = asyncio.get_running_loop()
        self._bundle = bundle
        self._mark = mark
        self._servers: dict[tuple[User, bool], ForkServer] = {}
        self._starting = asyncio.Lock()
        self._closed = False

    async def get(self, user: User, *, groupless: bool) -> ForkServer:
        """Return the one of a user, started if need be; SandboxUnavailable or OSError if that is impossible."""
        found = self._alive(user, groupless)
        if found is None:
            async with self._starting:
                found = self._alive(user, groupless)
                if found is None:
                    found = await _start(self._bundle, self._mark, user, groupless=groupless)
                    self._servers[user, groupless] = found
                    if self._closed:
                        self.close()
        return found

    def _alive(self, user: User, groupless: bool) -> ForkServer | None:  # noqa: FBT001  half of a key
        found = self._servers.get((user, groupless))
        if found is not None and not found.lives():
            self._servers.pop((user, groupless)).end()
            return None
        return found

    def close(self) -> None:
        """End them all, also one that is just starting."""
        self._closed = True
        while self._servers:
            self._servers.popitem()[1].end()


def receive(sock: socket.socket) -> tuple[bytes, int]:
    """Return a message and the process that sent it; nothing if the other end is gone."""
    room = socket.CMSG_SPACE(_CREDENTIALS.size)
    try:
        data, ancillary, _, _ = sock.recvmsg(_LONGEST_MESSAGE, room)
    except ConnectionResetError:
        # Who had not read all that it was told is gone; what it said last follows, if it said anything.
        data, ancillary, _, _ = sock.recvmsg(_LONGEST_MESSAGE, room)
    said = next((data for level, kind, data in ancillary if kind == socket.SCM_CREDENTIALS), bytes(_CREDENTIALS.size))
    return data, int(_CREDENTIALS.unpack(said)[0])


def _send(sock: socket.socket, data: bytes, fds: Sequence[int]) -> None:
    rights = struct.pack(f"{len(fds)}i", *fds)
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_DONTWAIT)


@cache
def _unshare() -> str | None:
    found = (f"{folder}/unshare" for folder in TRUSTED_PATH.split(":"))
    return next((path for path in found if os.access(path, os.X_OK)), None)


async def _start(bundle: Bundle, mark: Mark, user: User, *, groupless: bool) -> ForkServer:
    program = _unshare()
    if program is None:
        raise SandboxUnavailable("unshare (util-linux) is not installed")
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with contextlib.ExitStack() as undo, Fds() as fds, theirs:
        undo.callback(control.close)
        # Should it be stopped when its gateway is killed, the next one finds it by this.
        marked = mark.begin()
        undo.callback(mark.end)
        control.setblocking(False)
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        folder = fds.open(bundle.folder, os.O_PATH | os.O_DIRECTORY)
        gateway = fds.add(os.pidfd_open(os.getpid()))
        said, saying = fds.pipe()
        words = [*_NAMESPACES, bundle.interpreter.path, "-I", "-S", "-c", _PROGRAM]
        entered = given_up.entered(groupless=groupless)
        process = processes.start(
            Executable(fd=fds.open(program, os.O_PATH), path=program),
            [*words, *map(str, (theirs.fileno(), gateway, folder)), render.RUNNER, f"mark={marked}"],
            output=saying,
            fds=[theirs.fileno(), gateway, folder, *entered],
            user=user if os.geteuid() == 0 else None,
            dropper=processes.dropper(),
            before=[word for fd in entered for word in given_up.entering(fd, user)],
            env={"LANG": hardening.LANG},
        )
        undo.callback(processes.kill, process)
        fds.close(saying)
        theirs.close()
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await processes.readable(control.fileno())
            message, pid = receive(control)
        except (TimeoutError, OSError) as error:
            raise SandboxUnavailable(f"the fork server does not start: {error}") from None
        if message != READY or owner.parent(pid) != process.pid:
            processes.kill(process)
            why = os.read(said, _LONGEST_MESSAGE).decode("utf-8", "replace").strip().splitlines()
            raise SandboxUnavailable(f"the fork server does not start: {''.join(why[-1:])[:_LONGEST_REASON]}")
        server = ForkServer(process, control, pid, mark)
        undo.pop_all()
        return server


def _end(process: subprocess.Popen[bytes], control: socket.socket, pidfd: int, mark: Mark, gateway: int) -> None:
    if os.getpid() != gateway:
        return  # A fork of the gateway's that ends does not end what is not its own.
    control.close()
    os.close(pidfd)
    # It ends by itself, and its parent after it. Killed, it would be left to whoever reaps orphans here.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_TIMEOUT_S)
    processes.kill(process)
    mark.end()
