"""`crabpot prefix claude`: the program that it writes runs inside what Claude Code hands it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import need

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

BEFORE = "source /home/u/snapshot.sh 2>/dev/null || true && "


@pytest.fixture
def project(open_folder: Path) -> Path:
    need("bubblewrap")
    folder = open_folder / "project"
    (folder / "sub").mkdir(parents=True)
    if os.geteuid() == 0:
        for path in (folder, folder / "sub"):
            os.chown(path, 61234, 61234)
    return folder


@pytest.fixture(params=["0", "10m"], ids=["one-shot", "lingering"])
def program(crabpot: Program, request: pytest.FixtureRequest) -> Iterator[Program]:
    made = replace(crabpot, more={"CRABPOT_LINGER": request.param})
    yield made
    made("serve", "stop")


def written(program: Program, *options: str, cwd: Path | None = None) -> str:
    done = program("prefix", "claude", *options, cwd=cwd)
    assert done.code == 0, done.err
    name, _, path = done.out.strip().partition("=")
    assert name == "export CLAUDE_CODE_SHELL_PREFIX"
    return path


def handed(program: Program, path: str, text: str, cwd: Path, stdin: str = "never read") -> tuple[int, str, str]:
    done = subprocess.run(
        [path, text],
        cwd=cwd,
        env=program.environ,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_commands_run_inside_in_the_same_folder_with_their_own_exit_codes(program, project, tmp_path):
    path = written(program, "--workspace", str(project))

    def run(command, report="/tmp/claude-no-cwd", cwd=project):
        return handed(program, path, f"{BEFORE}eval '{command}' < /dev/null && pwd -P >| {report}", cwd)

    code, out, _ = run("pwd; cat; mktemp -u -p $TMPDIR")
    assert (code, out.splitlines()[0]) == (0, str(project))
    assert out.splitlines()[1].startswith("/tmp/")
    assert run("exit 7")[0] == 7
    assert run("ls nothing")[0] == 2
    assert run("cat /etc/shadow")[0] == 1
    assert run("pwd", cwd=project / "sub")[:2] == (0, f"{project}/sub\n")
    report = tmp_path / "claude-1-cwd"
    assert run("cd sub && echo made > file", report)[0] == 0
    assert (report.read_text(), (project / "sub/file").read_text()) == (f"{project}/sub", "made\n")
    assert run("cd /usr", tmp_path / "claude-2-cwd")[0] == 0
    assert not (tmp_path / "claude-2-cwd").exists(), "what only the sandbox has is no folder of the host"
    # As it starts MCP servers and hooks: unwrapped, and with input.
    assert handed(program, path, "cat", project, stdin="heard")[:2] == (0, "heard")


def test_a_pattern_sees_the_command_and_not_its_wrapping(program, project):
    program.configure('{tools: {elevated: {enabled: true, patterns: ["ls *"], requireApproval: false}}}')
    path = written(program, "--workspace", str(project))
    home = str(program.home)

    def run(command):
        return handed(program, path, f"{BEFORE}eval '{command}' < /dev/null && pwd -P >| /tmp/claude-x-cwd", project)

    assert ".config" in run(f"ls -a {home}")[1], "on the host"
    assert run(f"ls -a {home}; true")[1] == "", "not one simple command"
    assert run(f"ls -a {home} > out")[1] == ""
    # A wrapping that is not Claude Code's is not taken off.
    other = f"true && eval 'ls -a {home}' && pwd -P >| /tmp/claude-x-cwd"
    assert handed(program, path, other, project)[1] == ""


def test_an_approval_that_waits_is_announced_and_its_denial_is_126(program, project):
    program.configure('{tools: {elevated: {enabled: true, patterns: ["ls *"], approvalTimeout: 0.5}}}')
    path = written(program, "--workspace", str(project))
    code, out, err = handed(program, path, "ls /", project)
    assert (code, out) == (126, "")
    assert "crabpot approvals" in err
    assert "approval_timeout" in err


def test_it_is_set_up_again_without_a_trace_and_keeps_what_is_configured(crabpot, project):
    crabpot.configure("{\n  // mine\n  tools: { deny: ['cron'] },\n}\n")
    first = written(crabpot, "--workspace", ".", cwd=project)
    text = crabpot.usual_file.read_text()
    assert "// mine" in text
    assert written(crabpot, "--workspace", ".", cwd=project) == first
    assert crabpot.usual_file.read_text() == text
    assert os.stat(first).st_mode & 0o777 == 0o700
    assert " " not in first


def test_without_a_folder_it_is_the_sessions_own_and_says_so(crabpot):
    done = crabpot("prefix", "claude")
    assert done.code == 0
    assert "crabpot prefix claude --workspace ." in done.err
    assert not crabpot.usual_file.exists()
    crabpot.configure('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    assert "placed on the host" in crabpot("prefix", "claude").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workspace", "/nowhere"), "no such folder"),
        (("--workspace", "/"), "whole machine"),
        (("--workspace", "/etc"), "/etc"),
        (("--session", "agent:"), "session"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(crabpot, words, said):
    done = crabpot("prefix", "claude", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not crabpot.usual_file.exists()
    assert not (crabpot.state / "prefix").exists()
