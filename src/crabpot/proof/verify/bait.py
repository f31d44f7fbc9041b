"""What an attacker would want, laid out on the host for the duration of a run, and removed after it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.runner.exec.proc import stat_of
from crabpot.spec.hardening import NOBODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

VARIABLE = "CRABPOT_VERIFY_SECRET"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  where the host's programs share memory by name
_OUTSIDE = "/var/tmp"  # noqa: S108  made for folders of a random name
_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Bait:
    """Everything here is open to every user of the host: if it is out of reach, the sandbox is the reason.

    `knocks` lists the listeners that somebody connected to.
    """

    token: str
    secret: str
    folder: str
    secret_file: str
    open_folder: str
    socket_file: str
    abstract_socket: str
    ports: tuple[tuple[str, int], ...]
    process: int
    memory_key: int | None
    memory_file: str | None
    terminal: str
    knocks: list[str] = field(default_factory=list)

    def planted(self) -> frozenset[str]:
        """Return what somebody put into the open folder."""
        return frozenset(os.listdir(self.open_folder))

    def is_alive(self) -> bool:
        """Return whether the process of the host still runs."""
        return stat_of(self.process)[:1] not in ([], [b"Z"], [b"X"])


@asynccontextmanager
async def laid_out() -> AsyncIterator[Bait]:
    """Lay everything out. Sandboxes must be opened inside this block, so that the environment is bait too."""
    token = secrets.token_hex(8)
    secret = f"secret-{secrets.token_hex(16)}"
    knocks: list[str] = []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_folder(secret))
        stack.enter_context(_variable(secret))
        socket_file, abstract = f"{folder}/named.sock", f"crabpot-verify-{token}"
        ports = [await stack.enter_async_context(_port(host, knocks)) for host in ("127.0.0.1", "::1")]
        for path in (socket_file, "\0" + abstract):
            await stack.enter_async_context(_socket(path, knocks))
        yield Bait(
            token=token,
            secret=secret,
            folder=folder,
            secret_file=f"{folder}/secret.txt",
            open_folder=f"{folder}/open",
            socket_file=socket_file,
            abstract_socket=abstract,
            ports=tuple(port for port in ports if port is not None),
            process=stack.enter_context(_process(token, secret)),
            memory_key=stack.enter_context(_memory_segment()),
            memory_file=stack.enter_context(_memory_file(token, secret)),
            terminal=stack.enter_context(_terminal()),
            knocks=knocks,
        )


@contextmanager
def _folder(secret: str) -> Iterator[str]:
    # Not below /tmp: a sandbox has one of its own, where the same path could come to exist.
    place = _OUTSIDE if os.access(_OUTSIDE, os.W_OK) else None
    folder = os.path.realpath(tempfile.mkdtemp(prefix="crabpot-verify-", dir=place))
    try:
        os.chmod(folder, 0o755)  # noqa: S103  no file permission of the host may be what keeps an attacker out
        with open(f"{folder}/secret.txt", "w", encoding="ascii") as stream:
            stream.write(secret)
        os.chmod(f"{folder}/secret.txt", 0o644)
        os.mkdir(f"{folder}/open")
        os.chmod(f"{folder}/open", 0o777)  # noqa: S103  as above
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _variable(secret: str) -> Iterator[None]:
    os.environ[VARIABLE] = secret
    try:
        yield
    finally:
        del os.environ[VARIABLE]


@asynccontextmanager
async def _port(host: str, knocks: list[str]) -> AsyncIterator[tuple[str, int] | None]:
    try:
        server = await asyncio.start_server(_answer(host, knocks), host, 0)
    except OSError:
        yield None  # A machine without IPv6.
        return
    async with server:
        yield host, server.sockets[0].getsockname()[1]


@asynccontextmanager
async def _socket(path: str, knocks: list[str]) -> AsyncIterator[None]:
    async with await asyncio.start_unix_server(_answer(path.replace("\0", "@"), knocks), path):
        if not path.startswith("\0"):
            os.chmod(path, 0o666)  # noqa: S103  no file permission of the host may be what keeps an attacker out
        yield


def _answer(name: str, knocks: list[str]):  # type: ignore[no-untyped-def]  # noqa: ANN202  asyncio's own callback
    def knocked(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        knocks.append(name)
        writer.close()

    return knocked


@contextmanager
def _process(token: str, secret: str) -> Iterator[int]:
    # As the user that a sandbox of root's gateway has: it must not be its uid that keeps it from being signalled.
    user = NOBODY if os.geteuid() == 0 else None
    with subprocess.Popen(
        ["/bin/sh", "-c", "read _", token],
        stdin=subprocess.PIPE,
        env={VARIABLE: secret},
        cwd="/",
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    ) as process:
        try:
            yield process.pid
        finally:
            # Its input ends here, and with it the shell.
            with suppress(BrokenPipeError):
                process.communicate(timeout=5)


@contextmanager
def _memory_segment() -> Iterator[int | None]:
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(2**31 - 2) + 1
    segment = libc.shmget(key, _PAGE, _IPC_CREAT | _IPC_EXCL | 0o666)
    try:
        yield None if segment < 0 else key
    finally:
        if segment >= 0:
            libc.shmctl(segment, _IPC_RMID, None)


@contextmanager
def _memory_file(token: str, secret: str) -> Iterator[str | None]:
    path = f"{_SHARED_MEMORY}/crabpot-verify-{token}"
    try:
        with open(path, "w", encoding="ascii") as stream:
            stream.write(secret)
    except OSError:
        yield None
        return
    try:
        yield path
    finally:
        os.unlink(path)


@contextmanager
def _terminal() -> Iterator[str]:
    """Open a terminal for the claims about terminals: verify may well run without one."""
    both = os.openpty()
    try:
        os.fchmod(both[1], 0o666)
        yield os.ttyname(both[1])
    finally:
        for fd in both:
            os.close(fd)
