"""The program that runs in a pod, as a program: what waits ends, and what reports tells the truth."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.kubernetes import boot, bundle
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Program = list[str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Lay the bundle out as a pod has it."""
    for name, content in bundle.make(make_spec()).files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return [sys.executable, "-I", "-S", str(tmp_path / "boot.py")]


def told(program: Program, *words: str) -> dict[str, Any]:
    done = subprocess.run([*program, *words], capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL)
    mark, _, rest = done.stderr.partition(boot.MARK)
    assert (done.stdout, mark) == (b"", b"")
    return json.loads(rest)


@contextmanager
def listening(program: Program) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*program, "listen", str(port)], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stdin is not None
    process.stderr.read(len(boot.MARK))
    yield port
    process.stdin.close()
    assert process.wait(60) == 0
    process.stderr.close()


def test_what_is_reached_is_told_by_tcp_and_udp_and_what_is_not_is_not(program: Program) -> None:
    with listening(program) as port:
        there = [f"tcp 127.0.0.1 {port}", f"udp 127.0.0.1 {port}"]
        # No packet to this network leaves any machine (RFC 5737); the loopback has no such address.
        nowhere = ["tcp 127.0.0.1 1", "tcp 255.255.255.255 9"]
        assert told(program, "reach", *there, *nowhere)["reached"] == sorted([*there, "tcp 127.0.0.1 1"])


def test_the_process_that_waits_ends_at_its_deadline_and_at_the_first_signal(program: Program) -> None:
    assert subprocess.run([*program, "wait", "600", "0"], timeout=60, check=False).returncode == 0
    process = subprocess.Popen([*program, "wait", "600", "600"])
    process.terminate()
    # Before its handler is set it dies of the signal, as it would not as the first process of a pod.
    assert process.wait(60) in (0, -15)


def test_the_kernels_count_of_processes_killed_for_memory_is_read(program: Program) -> None:
    assert told(program, "struck")["killed"] >= 0
