"""While a question stands on the terminal, the thin client writes nothing of the call there."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import termios
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from crabpot.doors.thin.asking import Asking
from crabpot.doors.thin.running import Call
from crabpot.runner.core.frames import FrameReader

if TYPE_CHECKING:
    from crabpot.doors.thin.client import Connection

OUTPUT = b"\x1b[2J" * (256 << 10)


def bytes_waiting(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def test_output_that_is_being_written_stops_where_a_question_begins() -> None:
    ours, theirs = socket.socketpair()
    asking = Asking(Call(cast("Connection", SimpleNamespace(state="", socket=ours, reader=FrameReader()))))
    reader, writer = os.pipe()
    left: list[bytes] = []
    writing = threading.Thread(target=lambda: left.append(asking.write_output(writer, OUTPUT)))
    writing.start()
    above = len(os.read(reader, 4096))
    with asking.held():
        above += bytes_waiting(reader)
        while bytes_waiting(reader):
            os.read(reader, 4096)
        writing.join(60)
        assert bytes_waiting(reader) == 0
    assert above + len(left[0]) == len(OUTPUT)
    for one in (ours, theirs):
        one.close()
    for fd in (reader, writer):
        os.close(fd)
