"""What systemd passes to a service, and what it is told."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from crabpot.doors.systemd import notify, passed_socket

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
    import os, sys
    from crabpot.doors.systemd import passed_socket
    from crabpot.errors import CrabpotError
    os.dup2(int(sys.argv[1]), 3, inheritable=True)
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    try:
        found = passed_socket(sys.argv[2], environ)
        print(found.getsockname(), found.get_inheritable(), environ)
    except CrabpotError as error:
        print(error)
"""


def passed(at: Path, expected: Path) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(at))
        listener.listen()
        words = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(listener.fileno()), str(expected)]
        done = subprocess.run(words, pass_fds=[listener.fileno()], capture_output=True, text=True, check=True)
        return done.stdout


def test_the_socket_that_systemd_made_is_taken_and_nothing_else_inherits_it(tmp_path: Path) -> None:
    at = tmp_path / "serve.sock"
    assert passed(at, at) == f"{at} False {{}}\n"


def test_a_socket_that_lies_elsewhere_is_refused_with_what_to_write(tmp_path: Path) -> None:
    assert "ListenStream=" in passed(tmp_path / "other.sock", tmp_path / "serve.sock")


def test_what_was_meant_for_another_process_is_not_taken() -> None:
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDNAMES": "x"}
    assert passed_socket("/nowhere", environ) is None
    assert environ == {}
    assert passed_socket("/nowhere", {}) is None


def test_systemd_hears_that_the_service_is_ready_and_nobody_else_does(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        notify("READY=1", environ)
        assert manager.recv(100) == b"READY=1"
    assert environ == {}
    notify("READY=1", {})
    notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
