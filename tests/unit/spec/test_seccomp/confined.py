"""Owns running a program under the filter, in the kernel: the one way that the last claims are tried."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crabpot.spec.seccomp.bpf import assemble
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES

MACHINE = platform.machine()
PROBE = Path(__file__).parent / "probe.py"
TIMEOUT_S = 60

# Programs get a home of their own to write in; toolchains that live in the real one are still found.
_HOMES = {
    name: os.environ.get(name, str(Path.home() / folder))
    for name, folder in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo"))
}

# Runs by itself in a fresh interpreter: a test runner that filtered itself could not get out again.
_LAUNCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
code = bytes.fromhex(sys.argv[1])
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))
program = Program(len(code) // 8, code)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("no filter: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def run(
    argv: list[str], *, cwd: Path | None = None, text: str = "", filtered: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program under the filter; without `filtered`, the same way without it."""
    if sys.platform != "linux" or MACHINE not in AUDIT_ARCHES:
        pytest.skip(f"no filter for {MACHINE} to load")
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, assemble(MACHINE).hex()] if filtered else []
    return subprocess.run(
        [*launch, *argv],
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        start_new_session=True,  # vhangup and TIOCSTI must not find the tester's terminal
        env={**os.environ, **_HOMES, "HOME": str(cwd)} if cwd else None,
    )


def probe(*calls: tuple[int, ...]) -> list[int]:
    """Make system calls by number under the filter; answer each one's errno, 0 where it went through."""
    done = run([sys.executable, "-I", "-S", str(PROBE)], text=json.dumps({"calls": calls}))
    assert done.returncode == 0, done
    answers: list[int] = json.loads(done.stdout)
    return answers


def attack(name: str, *, filtered: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one of the probe's attacks by name."""
    request: dict[str, Any] = {"attack": name}
    return run([sys.executable, "-I", "-S", str(PROBE)], text=json.dumps(request), filtered=filtered)
