"""The call `run` of a runner on the host: the very file that was looked at, or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from .driver import MAIN, PYTHON, RunnerProcess


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


def test_a_confined_runner_has_no_such_call() -> None:
    script = f'exec {PYTHON} -I -S {MAIN} "$@"'
    with RunnerProcess(start=("unshare", "--pid", "--fork", "sh", "-c", script, "sh"), contained=True) as runner:
        result = runner.call("run", {"argv": ["true"], "binary": {**identity(Path("/usr/bin/true"))}})
    assert result["error"]["code"] == "not_found"
