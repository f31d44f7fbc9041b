"""`crabpot serve`: one long-lived gateway behind a Unix socket, for the same user."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

from crabpot.config.load import read_text
from crabpot.doors.local.connection import Connection
from crabpot.doors.local.identity import SOCKET_NAME, of_config
from crabpot.doors.systemd import passed_socket
from crabpot.errors import CrabpotError
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from crabpot.gateway import Gateway

    Inquiries = Callable[[str, dict[str, Any]], Coroutine[Any, Any, Any]]

_BESIDE, _ENDING = "run-", ".sock"
_OWN_SOCKET = re.compile(rf"{_BESIDE}[0-9]{{1,10}}\{_ENDING}", re.ASCII)

_LONGEST_ADDRESS = 107
# From 3.13 on asyncio removes a socket's file with its server: without systemd's, no call would start us again.
_STAYS: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class AlreadyServing(CrabpotError):
    """Another gateway listens on this state folder's socket."""


class Door:
    """A listening gateway: its clients, and whether it still takes new ones."""

    def __init__(self, gateway: Gateway, inquiries: Inquiries, ready: Callable[[], dict[str, Any]]) -> None:
        self._gateway = gateway
        self._inquiries = inquiries
        self._ready = ready
        self._listening = contextlib.ExitStack()
        self._socket: tuple[int, int] | None = None
        self.clients: set[asyncio.Task[None]] = set()
        # When the last client left.
        self.left = 0.0

    async def listen(self, state: str) -> None:
        """Take the state folder, and listen there."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_only_one(state))
            listener = stack.enter_context(_listener(os.path.join(state, SOCKET_NAME)))
            self._listening.push(stack.pop_all())
        await self.accept_on(listener)
        self._socket = _inode(os.path.join(state, SOCKET_NAME))

    async def accept_on(self, listener: socket.socket) -> None:
        """Serve whoever connects to a socket."""
        server = await asyncio.start_unix_server(self._accept, sock=listener, **_STAYS)
        self._listening.callback(server.close)

    @property
    def listens(self) -> bool:
        """Whether it takes new clients."""
        return self._socket is not None

    def is_found(self, path: str) -> bool:
        """Return whether new clients find it at this path."""
        return self._socket is not None and _inode(path) == self._socket

    def withdraw(self) -> None:
        """Take no more clients, and leave the folder to another gateway; those who are here are served on."""
        self._socket = None
        self._listening.close()

    async def close(self) -> None:
        """Withdraw, and disconnect every client."""
        self.withdraw()
        for task in self.clients:
            task.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            if same_user(writer.get_extra_info("socket")):
                await Connection(self._gateway, self._inquiries, self._ready(), reader, writer).run()
        except asyncio.CancelledError:
            pass  # We end the task ourselves, above; asyncio's own callback reports a cancelled task as an error.
        finally:
            self.clients.discard(task)
            self.left = time.monotonic()
            writer.close()


@contextlib.asynccontextmanager
async def serve(
    gateway: Gateway, state: str, inquiries: Inquiries, *, adopted: Callable[[], str] = lambda: "defaults"
) -> AsyncIterator[str]:
    """Listen during the block, and yield the socket's path; `inquiries` answers what is not a tool call.

    `adopted` returns the fingerprint of the configuration by which the gateway decides now.
    """
    door = Door(gateway, inquiries, lambda: {"op": "ready", "protocol": 1, "config": adopted()})
    await door.listen(state)
    try:
        yield os.path.join(state, SOCKET_NAME)
    finally:
        await door.close()


@contextlib.asynccontextmanager
async def serve_beside(gateway: Gateway, state: str, inquiries: Inquiries) -> AsyncIterator[None]:
    """Listen during the block on a socket of this process's own, beside the gateway that serves and any others."""
    for name in beside(state):
        pid = int(name.removeprefix(_BESIDE).removesuffix(_ENDING))
        if not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(state, name))
    ready = {"op": "ready", "protocol": 1, "config": None}
    with listening(os.path.join(state, f"{_BESIDE}{os.getpid()}{_ENDING}")) as listener:
        door = Door(gateway, inquiries, lambda: ready)
        await door.accept_on(listener)
        try:
            yield
        finally:
            await door.close()


def beside(state: str) -> list[str]:
    """Return the names of the sockets of gateways that do not serve: of those that run one agent."""
    try:
        names = os.listdir(state)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _OWN_SOCKET.fullmatch(name))


def fingerprint(config: str | None) -> str:
    """Return a hash of the configuration: a client must not be answered by a gateway with another one."""
    return of_config(config, b"" if config is None else read_text(config).encode())


def is_taken(state: str) -> bool:
    """Return whether a gateway has this state folder."""
    try:
        with _only_one(state):
            return False
    except AlreadyServing:
        return True


@contextlib.contextmanager
def _only_one(state: str) -> Iterator[None]:
    """Lock the state folder. Checking the socket is not enough: two gateways starting at once would both find none."""
    take(state)
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyServing(f"a gateway already serves {state}") from None
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def _listener(path: str) -> Iterator[socket.socket]:
    """Take the socket that systemd made, which stays when we end, or bind our own."""
    passed = passed_socket(path, os.environ)
    if passed is None:
        with listening(path) as listener:
            yield listener
        return
    with passed:
        passed.setblocking(False)
        yield passed


@contextlib.contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """Bind the socket, private from the start. An existing one was left by a dead gateway."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        try:
            with reachable(path) as address:
                listener.bind(address)
        finally:
            os.umask(before)
        ours = _inode(path)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            # Whoever removed the folder may have made another, with another gateway in it.
            if _inode(path) == ours:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


@contextlib.contextmanager
def reachable(path: str) -> Iterator[str]:
    """Yield an address for a socket: the kernel takes 107 bytes, and a path through its open folder is always short."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def same_user(sock: socket.socket) -> bool:
    """Return whether the other end runs as this user, by the kernel's word, not the peer's."""
    return peer(sock) == os.geteuid()


def peer(sock: socket.socket) -> int:
    """Return the user at the other end; of a listener, who made it listen."""
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)
