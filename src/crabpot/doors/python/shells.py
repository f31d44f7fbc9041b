"""A person's terminal in a box of a program that runs: a socket that only this user can open, and what connects to it.

Used as a program it connects the terminal that it was started on: `python -m crabpot.doors.python.shells SOCKET`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import stat
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.doors.python.programs import this_program
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.python.session import Session

_SHELL = ["sh", "-c", "command -v bash >/dev/null && exec bash -i || exec sh -i"]
# What the person's side sends: a kind and a size, then typed bytes, or the rows and columns of the terminal.
_HEAD, _SIZE = struct.Struct(">cI"), struct.Struct(">HH")
_TYPED, _RESIZED = b"t", b"r"
_MOST, _MOST_SIDE = 64 * 1024, 1000


class Shells:
    """The shells of one box: the socket is there from `open` to `close`."""

    def __init__(self, session: Session, state: str) -> None:
        self._session = session
        self._state = state
        self._path = ""
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Return the shell command that connects a terminal of this user to the box."""
        if self._server is None:
            self._path = this_program(self._state).socket_path()
            self._server = await asyncio.start_unix_server(self._serve, sock=_bound(self._path), limit=_MOST)
        return shlex.join([sys.executable, "-P", "-m", "crabpot.doors.python.shells", self._path])

    def close(self) -> None:
        """Take no more terminals. Those that are connected end with the box."""
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                os.unlink(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

        async def sink(_stream: str, data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            kind, first = await _message(reader)
            rows, cols = _sides(first) if kind == _RESIZED else (24, 80)
            streams = Streams(source=_typed(reader, sizes), sink=sink, resizes=sizes, paced=True)
            args = {"command": _SHELL, "tty": {"rows": rows, "cols": cols}, "timeout": self._session.time_ceiling}
            result = await self._session._call("exec", args, streams)  # noqa: SLF001  the same package
            if result.error is not None:
                writer.write(f"\r\ncrabpot: {result.error.message}\r\n".encode())
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # The person is gone, or it was none of ours.
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind, size = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if size > _MOST:
        raise ValueError("more than anybody types at once")
    return kind, await reader.readexactly(size)


async def _typed(reader: asyncio.StreamReader, sizes: asyncio.Queue[tuple[int, int]]) -> AsyncIterator[bytes]:
    with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
        while True:
            kind, data = await _message(reader)
            if kind == _RESIZED:
                sizes.put_nowait(_sides(data))
            elif data:
                yield data


def _sides(data: bytes) -> tuple[int, int]:
    try:
        rows, cols = _SIZE.unpack(data)
    except struct.error:
        raise ValueError("a size is rows and columns") from None
    return max(1, min(rows, _MOST_SIDE)), max(1, min(cols, _MOST_SIDE))


def _bound(path: str) -> socket.socket:
    """Return a socket at a path of any length: sockets allow 108 bytes, so it is named from its folder.

    A link in the folder's place leads nowhere, and the socket is this user's alone from its first moment on.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    made = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(made.fileno(), 0o600)
        made.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


def _connected(path: str) -> socket.socket:
    """Return a connection to the socket itself: what is planted in its place hears nothing of what a person types."""
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    made = socket.socket(socket.AF_UNIX)
    try:
        facts = os.fstat(found)
        if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not a socket of this user")
        made.connect(f"/proc/self/fd/{found}")
    except OSError:
        made.close()
        raise
    finally:
        os.close(found)
    return made


def connect(path: str) -> int:
    """Connect this terminal; return when the shell inside has ended."""
    import signal  # noqa: PLC0415  only the person's side
    import termios  # noqa: PLC0415
    import tty  # noqa: PLC0415

    try:
        made = _connected(path)
    except OSError:
        print("crabpot: the sandbox is no longer running", file=sys.stderr)
        return 1
    typed = sys.stdin.fileno()

    def size(*_: object) -> None:
        now = os.get_terminal_size(typed) if os.isatty(typed) else os.terminal_size((80, 24))
        _send(made, _RESIZED, _SIZE.pack(now.lines, now.columns))

    size()
    if not os.isatty(typed):
        return _relay(made, typed)
    before = termios.tcgetattr(typed)
    signal.signal(signal.SIGWINCH, size)
    # TCSADRAIN: what was typed while this started is for the shell inside.
    tty.setraw(typed, termios.TCSADRAIN)
    try:
        return _relay(made, typed)
    finally:
        termios.tcsetattr(typed, termios.TCSAFLUSH, before)


def _send(made: socket.socket, kind: bytes, data: bytes) -> None:
    with suppress(OSError):
        made.sendall(_HEAD.pack(kind, len(data)) + data)


def _relay(made: socket.socket, typed: int) -> int:
    import select  # noqa: PLC0415  only the person's side

    waiting: list[Any] = [typed, made]
    with suppress(ConnectionError):
        while True:
            ready, _, _ = select.select(waiting, [], [])
            if typed in ready:
                data = os.read(typed, 4096)
                _send(made, _TYPED, data or b"\x04")
                if not data:
                    waiting.remove(typed)
            if made in ready:
                said = made.recv(_MOST)
                if not said:
                    break
                os.write(sys.stdout.fileno(), said)
    return 0


if __name__ == "__main__":
    sys.exit(connect(sys.argv[1]))
