"""The real Claude Code, outside, with every command of its own shell tool inside: `crabpot prefix claude`."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.support.agents import PATIENCE_S, outside_environ
from tests.support.model_server import DONE, Script, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program


def claude(crabpot: Program, script: Script, folder: Path, *words: str, **more: str) -> list[str]:
    """Let Claude Code follow a script in a folder, and return what the model was told of each command."""
    with scripted(script, None):
        done = subprocess.run(
            ["claude", "-p", "do it", "--allowedTools", "Bash", *words],
            cwd=folder,
            env=outside_environ(crabpot, script.port, **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    assert DONE in done.stdout
    return [str(json.loads(one)["content"]) for one in script.results]


def test_its_commands_run_inside_and_it_notices_no_difference(lingering: Program, folder: Path, place: Path) -> None:
    lingering.configure('{tools: {elevated: {enabled: true, patterns: ["ls *"], requireApproval: false}}}')
    set_up = lingering("prefix", "claude", "--workspace", str(folder))
    prefix = set_up.out.strip().partition("=")[2]
    script = Script(
        "pwd; id -u; [[ a == a* ]] && echo bash",
        "cd sub && echo made > made.txt",
        "pwd; cat made.txt",
        "exit 3",
        "cat ~/.claude.json /etc/shadow",
        f"ls -a {place}/home",
        f"ls -a {place}/home; true",
        "echo $TMPDIR; mktemp -p $TMPDIR > /dev/null; echo $?",
        "printf '%s' \"it's; done\"",
        "true",
        "true",
    )
    # Its own files for the shell's folder are in a place that no sandbox has.
    (place / "tmp").mkdir()
    heard = claude(lingering, script, folder, CLAUDE_CODE_SHELL_PREFIX=prefix, TMPDIR=f"{place}/tmp")
    assert heard[0].startswith(f"{folder}\n")
    assert heard[0].endswith("\nbash")
    assert heard[2] == f"{folder}/sub\nmade"
    assert (folder / "sub/made.txt").read_text() == "made\n"
    assert heard[3].startswith("Exit code 3")
    assert "Permission denied" in heard[4] or "No such file" in heard[4]
    assert ".config" in heard[5], "a pattern sees the command, and it leaves"
    assert ".config" not in heard[6], "two commands do not"
    assert heard[7] == "/tmp\n0"
    assert heard[8] == "it's; done"
    told = [json.loads(line) for line in lingering("audit", "tail", "-n", "40", "--json").out.splitlines()]
    assert any("ls -a" in json.dumps(one) and '"host"' in json.dumps(one) for one in told)
    print(f"a command as the agent sees it: {min(script.seconds[-2:]) * 1000:.0f} ms")


def test_beside_its_own_shell(crabpot: Program, lingering: Program, folder: Path) -> None:
    """Exit codes and output are those of its own shell; the time of both is printed (pytest -s)."""
    commands = ("false", "echo out; echo err >&2; exit 4", "seq 3", "true", "true", "true")
    prefix = lingering("prefix", "claude", "--workspace", str(folder)).out.strip().partition("=")[2]
    own, inside = Script(*commands), Script(*commands)
    assert claude(crabpot, own, folder) == claude(lingering, inside, folder, CLAUDE_CODE_SHELL_PREFIX=prefix)
    print(f"its own shell {min(own.seconds[-3:]) * 1000:.0f} ms, inside {min(inside.seconds[-3:]) * 1000:.0f} ms")


def test_a_waiting_approval_and_its_end_are_told_to_the_model(lingering: Program, folder: Path) -> None:
    lingering.configure('{tools: {elevated: {enabled: true, patterns: ["ls *"], approvalTimeout: 1}}}')
    prefix = lingering("prefix", "claude", "--workspace", str(folder)).out.strip().partition("=")[2]
    (heard,) = claude(lingering, Script("ls /"), folder, CLAUDE_CODE_SHELL_PREFIX=prefix)
    assert heard.startswith("Exit code 126")
    assert "approval_timeout" in heard
    assert "approvals" in heard
