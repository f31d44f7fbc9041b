"""A filter that the runner takes itself holds for it and for what it starts, and a broken one is an error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import crabpot
from crabpot.spec.seccomp.allowed import RULES, without_internet
from crabpot.spec.seccomp.bpf import assemble

_PROGRAM = """
import socket, sys
sys.path.insert(0, {source!r})
from crabpot.runner.core import prctl, seccomp
prctl.forbid_privileges()
seccomp.install(bytes.fromhex({program!r}))
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family).close()
        print("made")
    except OSError as error:
        print(error.errno)
"""


def run(program: bytes) -> subprocess.CompletedProcess[str]:
    source = os.path.dirname(os.path.dirname(crabpot.__file__))
    text = _PROGRAM.format(source=source, program=program.hex())
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_without_internet_no_internet_socket_can_be_made_and_local_ones_can() -> None:
    refused = "97"  # EAFNOSUPPORT
    assert run(assemble(os.uname().machine, rules=without_internet(RULES))).stdout.split() == ["made", refused, refused]
    assert run(assemble(os.uname().machine)).stdout.split() == ["made", "made", "made"]


@pytest.mark.parametrize("program", [b"", b"\xff" * 8])
def test_a_filter_that_the_kernel_does_not_take_ends_the_runner(program: bytes) -> None:
    done = run(program)
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not take the system call filter" in done.stderr
