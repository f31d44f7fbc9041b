"""A gateway that `crabpot e2b --print-env` started, as a person's shell would know it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def started(state: Path) -> Iterator[None]:
    """Start it, and have the environment of this process lead the SDKs to it."""
    command = [sys.executable, "-m", "crabpot", "--state", str(state), "e2b", "--print-env"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    word, *values = shlex.split(done.stdout)
    assert word == "export"
    os.environ.update(value.split("=", 1) for value in values)
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (again.stdout, again.stderr) == (done.stdout, "")
    try:
        yield
    finally:
        said = re.search(r"process (\d+)", done.stderr)
        assert said is not None
        end(int(said[1]))


def end(pid: int) -> None:
    """End the gateway and wait for it."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    # A process that has ended has no command line, even before its parent has looked.
    while (command_line := Path(f"/proc/{pid}/cmdline")).exists() and command_line.read_bytes():
        assert time.monotonic() < deadline, "the gateway does not end"
        time.sleep(0.1)
