"""`exec` by argv, and with `detach`: what a command leaves running lives on, under `process`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until
from tests.unit.runner.driver import RunnerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def runner() -> Iterator[RunnerProcess]:
    with RunnerProcess() as process:
        yield process


def left_running(runner: RunnerProcess) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = runner.call("process", {"action": "list"})["data"]["processes"]
    return listed


def test_an_argv_is_not_read_by_a_shell(runner: RunnerProcess) -> None:
    assert runner.run(["printf", "%s|", "a b", "$HOME"])["stdout"] == "a b|$HOME|"


def test_a_name_is_looked_up_on_the_path_of_the_call(runner: RunnerProcess, tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho mine $1\n")
    program.chmod(0o755)
    env = {"PATH": f"/nowhere:{tmp_path}:/bin"}
    assert runner.run(["mine", "own"], env=env)["stdout"] == "mine own\n"
    program.chmod(0o644)
    assert runner.run(["mine"], env=env)["error"]["code"] == "permission_denied"


def test_a_script_without_a_first_line_is_the_shells(runner: RunnerProcess, tmp_path: Path) -> None:
    program = tmp_path / "script"
    program.write_text("echo by the shell $1\n")
    program.chmod(0o755)
    assert runner.run([str(program), "too"])["stdout"] == "by the shell too\n"


@pytest.mark.parametrize("wrong", [[], [""], ["a\0b"], ["echo", 1], [["echo"]], {}, 3])
def test_what_is_no_argv_is_refused(runner: RunnerProcess, wrong: object) -> None:
    assert runner.run(wrong)["error"]["code"] == "invalid_arguments"


def test_what_a_detached_command_leaves_is_polled_and_killed(runner: RunnerProcess) -> None:
    done = runner.run("(read _; echo never) </dev/zero & (echo later; exec sleep 600) & echo first", detach=True)
    assert done["exit_code"] == 0
    process = done["data"]["process"]
    assert [(one["id"], one["running"]) for one in left_running(runner)] == [(process, True)]
    assert runner.run("true")["success"]
    assert left_running(runner)
    if "later" not in done["stdout"]:
        wait_until(lambda: "later" in runner.call("process", {"action": "poll", "id": process})["stdout"])
    killed = runner.call("process", {"action": "kill", "id": process})
    assert killed["data"]["running"] is False
    assert left_running(runner) == []


def test_a_detached_command_that_leaves_nothing_is_an_ordinary_one(runner: RunnerProcess) -> None:
    done = runner.run("echo only; exit 3", detach=True)
    assert (done["exit_code"], done["stdout"], done["data"]) == (3, "only\n", None)
    assert left_running(runner) == []


def test_what_was_left_ends_by_itself(runner: RunnerProcess) -> None:
    process = runner.run("sleep 0.3 & exit 2", detach=True)["data"]["process"]
    waited = runner.call("process", {"action": "wait", "id": process})
    assert (waited["data"]["running"], waited["data"]["exit_code"]) == (False, 2)


def test_detach_and_background_exclude_each_other(runner: RunnerProcess) -> None:
    assert runner.run("true", detach=True, background=True)["error"]["code"] == "invalid_arguments"
    assert runner.run("true", detach="yes")["error"]["code"] == "invalid_arguments"
