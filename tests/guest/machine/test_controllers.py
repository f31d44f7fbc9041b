"""A user's systemd that hands no cpu controller down, as some distributions set it: what Crabpot says of it. As root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW_S = 300.0
STATE = "/var/tmp/controllers-state"
# Before the file that the doctor names, in the order in which systemd reads them.
LESS = Path("/run/systemd/system/user@.service.d/crabpot-test.conf")
MENDED = Path("/etc/systemd/system/user@.service.d")
HANDED = Path("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/cgroup.controllers")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOW_S, cwd="/crabpot")
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def log_in_again() -> None:
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "user@1000.service")


def told(*words: str) -> Any:
    """Return what Crabpot tells an ordinary user."""
    start = ("runuser", "-u", "tester", "--", "env", "HOME=/home/tester", "XDG_RUNTIME_DIR=/run/user/1000")
    command = [*start, sys.executable, "-P", "-m", "crabpot", "--state", STATE, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOW_S, cwd="/crabpot")
    return json.loads(done.stdout)


def limits() -> dict[str, str]:
    clauses = told("explain")["sandbox"]["clauses"]
    return {
        one["name"]: one["state"] for one in clauses if one["name"] in ("limits.memory", "limits.cpus", "limits.pids")
    }


def doctor() -> dict[str, str]:
    found: dict[str, str] = next(line for line in told("doctor") if line["name"] == "control groups")
    return found


@pytest.fixture(autouse=True)
def _no_cpu() -> Iterator[None]:
    LESS.parent.mkdir(parents=True, exist_ok=True)
    LESS.write_text("[Service]\nDelegate=\nDelegate=memory pids\n")
    log_in_again()
    assert HANDED.read_text().split() == ["memory", "pids"]
    yield
    LESS.unlink()
    shutil.rmtree(MENDED, ignore_errors=True)
    shutil.rmtree(STATE, ignore_errors=True)
    log_in_again()


def test_cpu_time_is_called_limited_only_once_the_doctors_command_was_run() -> None:
    assert limits() == {"limits.memory": "enforced", "limits.cpus": "degraded", "limits.pids": "enforced"}
    line = doctor()
    assert (line["state"], "without CPU time" in line["says"]) == ("warning", True), line
    command, _, then = line["fix"].partition(", then ")
    assert then == "log in again"
    run("sh", "-c", command.replace("sudo ", ""))
    log_in_again()
    assert set(limits().values()) == {"enforced"}
    assert doctor()["state"] == "ok"
