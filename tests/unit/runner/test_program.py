"""The call `run`: on the host the very file that was looked at, in a sandbox a program by its absolute path."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.driver import MAIN, PYTHON, RunnerProcess


def identity(path: Path) -> dict[str, Any]:
    found = path.stat()
    return {
        "path": str(path),
        "dev": found.st_dev,
        "ino": found.st_ino,
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
    }


def test_the_file_that_was_looked_at_runs_with_its_words(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    shutil.copy("/usr/bin/printf", tool)
    with RunnerProcess() as runner:
        result = runner.call("run", {"argv": ["printf", "%s,", "a b", "$x"], "binary": identity(tool)})
    assert (result["stdout"], result["exit_code"]) == ("a b,$x,", 0)


@pytest.mark.parametrize("name", ["dev", "ino", "size", "mtime_ns", "ctime_ns"])
def test_any_other_file_does_not(tmp_path: Path, name: str) -> None:
    tool = tmp_path / "tool"
    shutil.copy("/usr/bin/true", tool)
    other = {**identity(tool), name: 1}
    with RunnerProcess() as runner:
        assert runner.call("run", {"argv": ["tool"], "binary": other})["error"]["code"] == "conflict"
        tool.unlink()
        assert runner.call("run", {"argv": ["tool"], "binary": identity(Path("/usr/bin/true"))})["success"]
        assert runner.call("run", {"argv": ["tool"], "binary": other})["error"]["code"] == "conflict"


def test_a_link_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.symlink_to("/usr/bin/true")
    with RunnerProcess() as runner:
        assert runner.call("run", {"argv": ["tool"], "binary": identity(tool)})["error"]["code"] == "conflict"


ALONE = ("unshare",) if os.geteuid() == 0 else ("unshare", "--map-current-user")
CONFINED = (*ALONE, "--pid", "--fork", "sh", "-c", f'exec {PYTHON} -I -S {MAIN} "$@"', "sh")


def test_a_confined_runner_starts_a_program_by_its_absolute_path_alone(tmp_path: Path) -> None:
    with RunnerProcess(start=CONFINED, contained=True) as runner:
        args = {"argv": ["/usr/bin/env"], "env": {"MORE": "1"}, "cwd": "/tmp"}
        shown = runner.call("run", args)["stdout"].split()
        assert {"MORE=1", "USER=agent"} <= set(shown)
        assert runner.call("run", {"argv": ["/bin/pwd"], "cwd": "/tmp"})["stdout"] == "/tmp\n"
        # A name would be looked up where shims lie.
        assert runner.call("run", {"argv": ["true"]})["error"]["code"] == "invalid_arguments"
        assert runner.call("run", {"argv": ["/bin/true"], "env": {"A=B": "x"}})["error"]["code"] == "invalid_arguments"


def test_what_a_confined_runner_streams_is_not_cut(tmp_path: Path) -> None:
    limits = {"output": 4096}
    with RunnerProcess(start=CONFINED, contained=True, limits=limits) as runner:
        args = {"argv": ["/usr/bin/head", "-c", "1000000", "/dev/zero"]}
        answer = runner.call("run", args, stream=True)
        assert (answer["success"], answer["truncated"]) == (True, False)
        assert sum(len(data) for data in runner.output.values()) == 1_000_000


def test_a_runner_that_was_told_what_it_may_write_writes_nothing_else(tmp_path: Path) -> None:
    """On the host, where nobody else confines it: also without a network, and without what a setuid program gives."""
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    allowed.mkdir()
    other.mkdir()
    with RunnerProcess(writable=[str(allowed), "/dev/null"], offline=True) as runner:
        touch = identity(Path("/usr/bin/touch").resolve())
        assert runner.call("run", {"argv": ["touch", f"{allowed}/x"], "binary": touch})["success"]
        refused = runner.call("run", {"argv": ["touch", f"{other}/x"], "binary": touch})
        assert (refused["exit_code"], "Permission denied" in refused["stderr"]) == (1, True)
        with socket.create_server(("127.0.0.1", 0)) as server:
            program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
            python = identity(Path("/usr/bin/python3").resolve())
            cut = runner.call("run", {"argv": ["python3", "-c", program], "binary": python})
        assert "PermissionError" in cut["stderr"]
        cat = identity(Path("/usr/bin/cat").resolve())
        assert "NoNewPrivs:\t1" in runner.call("run", {"argv": ["cat", "/proc/self/status"], "binary": cat})["stdout"]
