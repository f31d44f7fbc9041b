"""A kernel in which only pid 1 adopts orphans (gVisor's) is enough for a runner that is pid 1, and for no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import crabpot

# No kernel knows this number, so that it is refused as gVisor refuses the true one.
PROGRAM = "from crabpot.runner.core import prctl; prctl._PR_SET_CHILD_SUBREAPER = 9999; prctl.shield_and_adopt()"


def run(*before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(Path(crabpot.__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_runner_that_could_lose_sight_of_orphans_does_not_start() -> None:
    assert "prctl(9999) was refused" in run().stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace without a user namespace")
def test_pid_1_adopts_them_anyway() -> None:
    ended = run("unshare", "--pid", "--fork")
    assert (ended.returncode, ended.stderr) == (0, "")
