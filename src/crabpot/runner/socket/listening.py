"""The runner on a Unix socket of its own: who may connect, how many at once, and what all of them share."""

from __future__ import annotations

import argparse
import os
import posix
import resource
import socket
import struct
import sys
from time import monotonic

from ..core import startup
from ..core.hello import Hello
from ..core.loop import READ, Loop
from ..core.prctl import shield_and_adopt
from ..core.signals import signal
from ..core.tools import SharedTools
from ..exec.reaper import Reaper
from ..files.context import Context
from . import allowed, confinement
from .allowed import Allowed
from .client import Client
from .roots import Roots, check_folder
from .socketfile import CannotListen, SocketFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_USAGE = 2
_MOST_CLIENTS = 64
_PATIENCE_S = 30.0
_ACCEPT_AT_ONCE = 16
_ACCEPT_AGAIN_S = 1.0
# Both streams of a result fit into one line of the plain protocol, unless most of it must be escaped.
_OUTPUT = 384 << 10
_CREDENTIALS = struct.Struct("3i")
_END_SIGNALS = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


class Shared:
    """What the clients share: one loop, one reaper, the roots and the allow-list."""

    def __init__(self, file: SocketFile, roots: Roots, commands: Allowed, patience_s: float) -> None:
        self.loop = Loop()
        # Only as pid 1 is every visible process its own; a child of pid 1 may as well be a service of the host.
        self.reaper = Reaper(self.loop, contained=confinement.is_alone())
        self.tools = SharedTools()
        self.allowed = commands
        self._roots = tuple(folder.decode("utf-8", "surrogateescape") for folder in roots.folders)
        self.context = Context(self._roots[0], self._roots, enclosed=True)
        self._listener = file.listener
        self._clients: list[Client] = []
        self._patience_s = patience_s
        self.loop.watch(self._listener.fileno(), READ, self._accept)
        self.loop.catch((signal.SIGCHLD, *_END_SIGNALS), self._signalled)
        self._sweep()

    def hello(self) -> Hello:
        """Return what this runner is, whoever asks."""
        return Hello(
            {
                "op": "hello",
                "workspace": self._roots[0],
                "roots": list(self._roots),
                "shell": ["/bin/sh"],
                "env": {"TMPDIR": self.allowed.tmp},
                "limits": {"output": _OUTPUT},
                "contained": False,
            }
        )

    def run(self) -> None:
        """Serve until a signal comes, then end all that was started."""
        try:
            self.loop.run()
        finally:
            self.reaper.kill_everything()

    def forget(self, client: Client) -> None:
        """Forget a client that is gone."""
        self._clients.remove(client)

    def _signalled(self, numbers: bytes) -> None:
        if not _END_SIGNALS.isdisjoint(numbers):
            self.loop.stop()
        self.reaper.collect()

    def _accept(self) -> None:
        for _ in range(_ACCEPT_AT_ONCE):
            try:
                connection, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Out of descriptors or memory: existing clients go on, new ones wait.
                self.loop.unwatch(self._listener.fileno())
                self.loop.set_timer(self._accept, _ACCEPT_AGAIN_S, self._accept_again)
                return
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _gid = _CREDENTIALS.unpack(credentials)
            if len(self._clients) >= _MOST_CLIENTS and not self._make_room((pid, uid)):
                connection.close()
                continue
            fd = connection.detach()
            try:
                self._clients.append(Client(self, fd, (pid, uid)))
            except OSError:
                posix.close(fd)

    def _accept_again(self) -> None:
        self.loop.watch(self._listener.fileno(), READ, self._accept)

    def _make_room(self, newcomer: tuple[int, int]) -> bool:
        """End a connection of whoever has most, the newcomer counted: nobody keeps others out by holding all.

        The longest idle goes first. A busy one goes only for somebody who has none.
        """
        held: dict[tuple[int, int], int] = {newcomer: 1}
        for client in self._clients:
            held[client.peer] = held.get(client.peer, 0) + 1
        most = max(held.values())
        theirs = [client for client in self._clients if held[client.peer] == most]
        idle = [client for client in theirs if not client.busy]
        if idle:
            min(idle, key=lambda client: client.since).evict()
        elif theirs and held[newcomer] < most:
            theirs[-1].evict()
        else:
            return False
        return True

    def _sweep(self) -> None:
        now = monotonic()
        for client in list(self._clients):
            client.sweep(now, self._patience_s)
        self.loop.set_timer(self._sweep, max(0.05, self._patience_s / 8), self._sweep)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _complain(message)
        self.exit(_USAGE)


def main(argv: list[str]) -> int:
    """Run the program, when it is to listen."""
    parser = _Parser(prog="runner", description="Run commands and tools for clients of a Unix socket.")
    parser.add_argument("--socket", required=True, metavar="PATH", help="where to listen")
    parser.add_argument("--root", required=True, nargs="+", action="extend", metavar="DIR", help="reachable folders")
    parser.add_argument(
        "--allow", nargs="+", action="extend", metavar="NAME", help="commands that replace the default list"
    )
    parser.add_argument(
        "--patience", type=float, default=_PATIENCE_S, metavar="SECONDS", help="how long a client may be silent"
    )
    parser.add_argument(
        "--without-landlock", action="store_true", help="run without the second wall, where the kernel has no Landlock"
    )
    options = parser.parse_args(argv)
    names = [name for text in options.allow or allowed.DEFAULT for name in text.split(",") if name]
    path = os.path.abspath(options.socket)
    roots = [os.fsencode(os.path.abspath(folder)) for folder in options.root]
    wrong = _problem(path, roots, names, options.patience)
    if wrong is not None:
        _complain(wrong)
        return _USAGE
    startup.close_all_but()
    posix.dup2(posix.open("/dev/null", posix.O_RDONLY), 0)
    startup.reset_signals()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    inside = Roots(roots)
    if not (options.without_landlock or confinement.is_possible()):
        _complain(confinement.NEEDED)
        return 1
    try:
        file = SocketFile(path)
        tmp = confinement.make_private(path)
    except (CannotListen, OSError) as error:
        _complain(str(error))
        return 1
    file.private = None if confinement.is_alone() else tmp
    commands = Allowed(tuple(dict.fromkeys(names)), inside, tmp)
    if not options.without_landlock:
        # Before orphans come to this process. And the end of pid 1 ends every other process too: there the file stays,
        # and the next runner replaces it.
        if not confinement.is_alone():
            file.start_remover()
        confinement.enclose(inside.folders, tmp, commands.programs, run_own=commands.run_anything)
    shield_and_adopt()
    try:
        shared = Shared(file, inside, commands, options.patience)
        _announce(path, inside, names)
        shared.run()
    finally:
        file.remove()
    return 0


def _problem(path: str, roots: list[bytes], names: list[str], patience_s: float) -> str | None:
    for root in roots:
        why = check_folder(root)
        if why is not None:
            return "--root %s: %s" % (os.fsdecode(root), why)
    if Roots(roots).holds(os.path.realpath(os.fsencode(os.path.dirname(path)))):
        return "--socket %s lies in a root, where commands could replace it" % path
    for name in names:
        why = allowed.check_name(name)
        if why is not None:
            return "--allow %s: %s" % (name, why)
    if not names:
        return "--allow: no command is named"
    return None if 0 < patience_s < float("inf") else "--patience is not a number of seconds above 0"


def _announce(path: str, roots: Roots, names: list[str]) -> None:
    anything = [name for name in names if name in allowed.ANYTHING]
    if anything:
        _complain("%s can run anything: the walls around this runner are the only ones left" % ", ".join(anything))
    if posix.getuid() == 0:
        _complain("this runner is root, and so is what it runs: start it as the owner of the roots")
    shown = ", ".join(folder.decode("utf-8", "replace") for folder in roots.folders)
    _complain("listening on %s; roots: %s; commands: %s" % (path, shown, ", ".join(names)))


def _complain(text: str) -> None:
    # A path may contain terminal control characters.
    shown = "".join(char if char.isprintable() else "\\x%02x" % ord(char) for char in text)
    sys.stderr.write("crabpot runner: %s\n" % shown)
    sys.stderr.flush()
