"""A gateway that `crabpot e2b --print-env` started, as a person's shell would know it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory):
    state = tmp_path_factory.mktemp("e2b") / "state"
    command = [sys.executable, "-m", "crabpot", "--state", str(state), "e2b", "--print-env"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    word, *values = shlex.split(done.stdout)
    assert word == "export"
    os.environ.update(value.split("=", 1) for value in values)
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (again.stdout, again.stderr) == (done.stdout, "")
    yield state
    pid = int(re.search(r"process (\d+)", done.stderr)[1])
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 60
    # A process that has ended has no command line, even before its parent has looked.
    while (command_line := Path(f"/proc/{pid}/cmdline")).exists() and command_line.read_bytes():
        assert time.monotonic() < deadline, "the gateway does not end"
        time.sleep(0.1)
