"""Connect to a runner that already listens; closing means disconnecting, and the runner ends what was started here."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.backends.base import Clause, greeting
from crabpot.backends.linux import procs
from crabpot.backends.socket import clauses
from crabpot.backends.socket.clauses import Findings
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.runner.core.frames import FrameError, FrameReader, encode
from crabpot.spec import binds
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.layers.layer import Mechanism
    from crabpot.spec.spec import SandboxSpec

# A runner of ours answers at once; whatever else listens there is not waited for.
_ANSWER_S = 5.0
_AGAIN_S = 0.02
_READ = 64 * 1024
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who listens, according to the kernel; no pid if it is in another pid namespace."""

    pid: int | None
    uid: int
    gid: int


class Connection:
    """A connection to a runner that belongs to somebody else."""

    def __init__(self, sock: socket.socket, hello: Mapping[str, Any], pid: int | None) -> None:
        self.channel = Channel(sock=sock)
        self.hello = hello
        self.pid = pid

    async def close(self) -> None:
        """Disconnect: the runner ends the calls and background processes of this connection by itself."""
        self.channel.sock.close()

    async def freeze(self) -> None:
        """Refuse: it may serve others."""
        raise SandboxLost("a runner on a socket cannot be frozen: it was started by somebody else, who may share it")

    async def thaw(self) -> None:
        """Do nothing: it was never frozen."""

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return None: only who set its limits knows them."""
        return None

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        """Return that there is nothing to remount: nothing of it is under review."""
        return False

    def rename(self, name: str) -> None:
        """Do nothing: no name of it is seen."""


class Socket:
    """Opens connections to the runner at a spec's socket."""

    name = "socket"

    def __init__(self, *, home: str, answer_s: float = _ANSWER_S) -> None:
        self._home = home
        self._answer_s = answer_s

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Ask the runner what it is and the kernel who it is; everything else only who started it knows."""
        try:
            sock, peer = await self._connect(spec)
        except SandboxUnavailable as error:
            return clauses.unavailable(str(error))
        try:
            ready = await asyncio.wait_for(_greet(sock, _hello(spec)), self._answer_s)
        except TimeoutError:
            return clauses.unavailable(f"whatever listens at {spec.socket} did not answer hello: is it a runner?")
        except (OSError, FrameError, EOFError) as error:
            return clauses.unavailable(f"whatever listens at {spec.socket} is not a runner of this version: {error}")
        finally:
            sock.close()
        found = Findings(
            path=str(spec.socket),
            uid=peer.uid,
            gid=peer.gid,
            roots=_words(ready.get("roots")),
            commands=_words(ready.get("commands")),
            seen=procs.look(peer.pid),
        )
        return clauses.clauses(spec, found)

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:
        """Raise SandboxUnavailable: there is no way, and its clause says so before anybody asks."""
        raise SandboxUnavailable(f"{spec.workspace} cannot be put under review behind a socket")

    async def close(self) -> None:
        """Do nothing: it keeps nothing between openings."""

    async def open(self, spec: SandboxSpec) -> Connection:
        """Connect; the greeting follows on the wire, as with every backend."""
        sock, peer = await self._connect(spec)
        return Connection(sock, _hello(spec), peer.pid)

    async def _connect(self, spec: SandboxSpec) -> tuple[socket.socket, Peer]:
        path = binds.expand(spec.socket or "", self._home)
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            _check_kind(path)
            await asyncio.wait_for(_connect(sock, path), self._answer_s)
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except TimeoutError:
            sock.close()
            raise SandboxUnavailable(f"the runner at {path} takes no connections: it hangs, or has too many") from None
        except OSError as error:
            sock.close()
            raise SandboxUnavailable(_why_not(path, error)) from None
        except BaseException:
            sock.close()
            raise
        pid, uid, gid = _CREDENTIALS.unpack(credentials)
        return sock, Peer(pid=pid or None, uid=uid, gid=gid)


def _check_kind(path: str) -> None:
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        raise SandboxUnavailable(f"{path} is not a socket; start a runner there: crabpot runner --socket {path} …")


async def _connect(sock: socket.socket, path: str) -> None:
    """Connect as soon as its queue has room; no event tells when."""
    while True:
        try:
            sock.connect(path)
        except BlockingIOError:
            await asyncio.sleep(_AGAIN_S)
        else:
            return


def _why_not(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"no runner listens at {path}: start one with crabpot runner --socket {path} --root DIR"
    if isinstance(error, PermissionError):
        return f"the runner at {path} is for its owner and group: join that group, or run as its owner"
    return f"the runner at {path} cannot be reached: {error.strerror}"


def _hello(spec: SandboxSpec) -> dict[str, Any]:
    """Return the usual greeting; such a runner keeps the workspace, roots and limits that it was started with."""
    limits = {"output": spec.limits.output, "open_files": None, "file_size": None, "processes": None}
    return {**greeting(spec), "limits": limits, "contained": False, "shims": []}


async def _greet(sock: socket.socket, hello: Mapping[str, Any]) -> dict[str, Any]:
    """Send hello and read one frame, which is hostile."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, encode(dict(hello)))
    reader = FrameReader()
    while True:
        data = await loop.sock_recv(sock, _READ)
        if not data:
            raise EOFError("it hung up")
        for header, _ in reader.feed(data):
            if header.get("op") != "ready":
                raise FrameError("it did not say that it is ready")
            return header


def _words(value: object) -> tuple[str, ...]:
    """Return what a runner says of itself, as far as it can be shown."""
    if not isinstance(value, list):
        return ()
    return tuple(word for word in value[:64] if isinstance(word, str) and word.isprintable() and len(word) <= 4096)  # noqa: PLR2004  a path
