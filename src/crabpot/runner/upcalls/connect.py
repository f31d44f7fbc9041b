"""A program for ssh's ProxyCommand: connect its own input and output to a host through the sandbox's proxy.

`python3 -I -S connect.py HOST PORT`
"""

from __future__ import annotations

# The C module beneath `socket`: each ssh waits for this program to start.
import _socket as socket
import posix
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROXY = ("127.0.0.1", 3128)
_CHUNK = 64 << 10
_LONGEST_ANSWER = 64 << 10


def main(argv: list[str]) -> int:
    """Run the program."""
    if len(argv) != 2 or not argv[1].isdigit():  # noqa: PLR2004  host and port
        return _fail("usage: connect HOST PORT")
    host = "[%s]" % argv[0] if ":" in argv[0] else argv[0]
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    try:
        sock.connect(_PROXY)
        place = ("%s:%s" % (host, argv[1])).encode("utf-8", "surrogateescape")
        sock.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (place, place))
        answer = _answer(sock)
    except OSError as error:
        return _fail("the sandbox's proxy: %s" % error)
    head, _, rest = answer.partition(b"\r\n\r\n")
    if head[9:12] != b"200":
        return _fail(rest.decode("utf-8", "replace").strip() or head.decode("utf-8", "replace"))
    posix.write(1, rest)
    return _join(sock)


def _answer(sock: Any) -> bytes:
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < _LONGEST_ANSWER:
        piece = sock.recv(_CHUNK)
        if not piece:
            break
        answer += piece
    if answer[9:12] != b"200":
        # Any other answer is a sentence for the person who reads it, and ends with the connection.
        while len(answer) < _LONGEST_ANSWER:
            piece = sock.recv(_CHUNK)
            if not piece:
                break
            answer += piece
    return answer


def _join(sock: Any) -> int:
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(sock.fileno(), select.POLLIN)
    while True:
        for fd, _ in waiting.poll():
            if fd == 0:
                data = posix.read(0, _CHUNK)
                if data:
                    sock.sendall(data)
                else:
                    waiting.unregister(0)
                    sock.shutdown(socket.SHUT_WR)
            else:
                data = sock.recv(_CHUNK)
                if not data:
                    return 0
                while data:
                    data = data[posix.write(1, data) :]


def _fail(message: str) -> int:
    posix.write(2, b"%s\n" % message.encode("utf-8", "replace"))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
