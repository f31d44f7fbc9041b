"""A host command as a program inside sees it: argv, folder, input and signals go to the runner, its end comes back.

It runs as its own process, started by whatever calls the command. It asks on behalf of the sandbox and is not trusted.
"""

from __future__ import annotations

import _socket
import json
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where the runner listens. In /tmp, which is the sandbox's own: whoever removes it only harms themselves.
SOCKET = "/tmp/.crabpot-host"  # noqa: S108
# A message is its kind, its length in four bytes, and that many bytes.
ASK, INPUT, INPUT_END, SIGNAL, OUTPUT, ERRORS, END = b"A", b"I", b"E", b"S", b"O", b"R", b"Q"
HEAD = 5
LARGEST = 256 << 10

_PIECE = 32 << 10
SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
_TIMED_OUT, _FAILED, _REFUSED, _INTERRUPTED = 124, 125, 126, 130
_EXITS = {
    "timeout": _TIMED_OUT,
    "cancelled": _INTERRUPTED,
    "denied": _REFUSED,
    "approval_denied": _REFUSED,
    "approval_timeout": _REFUSED,
}


def message(kind: bytes, data: bytes = b"") -> bytes:
    """Return one message of either side."""
    return kind + len(data).to_bytes(4, "big") + data


class Messages:
    """Takes bytes as they come and returns whole messages; ValueError on one that is too large."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the messages that are complete now."""
        self._buffer += data
        found = []
        while len(self._buffer) >= HEAD:
            size = int.from_bytes(self._buffer[1:HEAD], "big")
            if size > LARGEST:
                raise ValueError("a message that is too large")
            if len(self._buffer) < HEAD + size:
                break
            found.append((bytes(self._buffer[:1]), bytes(self._buffer[HEAD : HEAD + size])))
            del self._buffer[: HEAD + size]
        return found


class _Shim:
    """One call of a host command."""

    def __init__(self, name: str, socket: _socket.socket) -> None:
        self._name = name
        self._socket = socket
        self._messages = Messages()
        self._poll = select.poll()
        self._poll.register(socket.fileno(), select.POLLIN)
        self._wake, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        self._poll.register(self._wake, select.POLLIN)
        for one in SIGNALS:
            signal.signal(getattr(signal, "SIG" + one), lambda *_: None)

    def run(self, words: list[str]) -> int:
        """Send the request, pass everything on, and return the exit status."""
        # Raw, with the folder first: no argument contains a NUL, and nothing on the way to the gateway has to parse it.
        self._send(ASK, b"\0".join(os.fsencode(word) for word in (_folder(), self._name, *words)))
        try:
            self._poll.register(0, select.POLLIN)
        except (OSError, ValueError):
            self._send(INPUT_END)
        while True:
            for fd, _ in self._poll.poll():
                if fd == 0:
                    self._pass_input()
                elif fd == self._wake:
                    self._pass_signals()
                else:
                    ended = self._take()
                    if ended is not None:
                        return ended

    def _send(self, kind: bytes, data: bytes = b"") -> None:
        try:
            self._socket.sendall(message(kind, data))
        except OSError:
            return  # It is over already; the runner's answer is there to be read.

    def _pass_input(self) -> None:
        try:
            data = os.read(0, _PIECE)
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(0)
        self._send(INPUT if data else INPUT_END, data)

    def _pass_signals(self) -> None:
        for number in os.read(self._wake, 4096):
            self._send(SIGNAL, signal.Signals(number).name[3:].encode())

    def _take(self) -> int | None:
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            return self._say("the runner of this sandbox has gone", _FAILED)
        for kind, content in self._messages.feed(data):
            if kind == END:
                return self._end(json.loads(content))
            _write(1 if kind == OUTPUT else 2, content)
        return None

    def _end(self, reply: dict[str, Any]) -> int:
        error = reply.get("error")
        if error is not None:
            return self._say(error["message"], _EXITS.get(error["code"], _FAILED))
        exit_code: int = reply.get("exit_code", _FAILED)
        return exit_code

    def _say(self, text: str, status: int) -> int:
        _write(2, ("crabpot: %s: %s\n" % (self._name, text)).encode("utf-8", "backslashreplace"))
        return status


def _write(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BrokenPipeError:
            # As the command itself would end if nobody read its output.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        except BlockingIOError:
            select.select([], [fd], [])


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def main(argv: list[str]) -> int:
    """Run the program: the name of the command, then its arguments."""
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        socket.connect(SOCKET)
    except OSError as error:
        text = "crabpot: %s: nobody listens on %s: %s\n" % (argv[0], SOCKET, error.strerror)
        os.write(2, text.encode())
        return _FAILED
    return _Shim(argv[0], socket).run(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
