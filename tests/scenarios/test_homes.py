"""A home of its own: what programs write there stays out of the project, and commits have a name."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import engine_host, need
from tests.support.program import PATIENCE_S
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.program import Program

_SOMEBODY = 61234
_AGENT = {"NAME": "Agent", "EMAIL": "agent@example.com"}
_COMMIT = "git add -A && git commit -qm work && git log -1 --format='%an %ae'"
_AT_HOME = "mkdir -p ~/.config/tool && echo set > ~/.config/tool/it && echo typed >> ~/.bash_history"


@pytest.fixture
def project() -> Iterator[Path]:
    """An ordinary user's repository, below /tmp."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix="crabpot-project-")))
    (made / "notes.txt").write_text("mine\n")
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{_SOMEBODY}:{_SOMEBODY}", str(made)], check=True)
    yield made
    shutil.rmtree(made)


def entries(project: Path) -> list[str]:
    return sorted(path.name for path in project.iterdir())


@pytest.mark.parametrize("backend", ["bubblewrap", "docker"])
def test_exec_and_shell_write_their_histories_and_settings_beside_the_project(
    backend: str, crabpot: Program, project: Path
) -> None:
    need(backend)
    person = replace(crabpot, more={"DOCKER_HOST": engine_host()}) if backend == "docker" else crabpot
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _AGENT.items()}
    sandbox = f"backend: '{backend}', workspace: 'rw', home: 'main', env: {names}"
    person.configure(f"{{agents: {{defaults: {{workspace: '{project}', sandbox: {{{sandbox}}}}}}}}}")
    ended = person("exec", "--", f"echo $HOME; cd; pwd; {_AT_HOME}; cd /workspace; {_COMMIT}")
    assert ended.out == "/home/agent\n/home/agent\nAgent agent@example.com\n", ended.err
    terminal = Terminal(person, "shell")
    try:
        terminal.type("echo in the $((6 * 7))nd line\nexit\n")
        terminal.wait_for("in the 42nd line", within_s=PATIENCE_S)
        assert terminal.end() == 0
    finally:
        terminal.close()
    kept = person("exec", "--", "cat ~/.config/tool/it ~/.bash_history").out.splitlines()
    assert kept[:2] == ["set", "typed"]
    assert "echo in the $((6 * 7))nd line" in kept
    assert entries(project) == [".git", "notes.txt"]


def test_a_run_has_a_home_of_its_own_and_the_persons_name_and_none_of_the_persons_settings(
    crabpot: Program, project: Path
) -> None:
    need("bubblewrap")
    text = "[user]\n\tname = Anna\n\temail = anna@example.com\n[alias]\n\tmine = status\n"
    (crabpot.home / ".gitconfig").write_text(text)
    script = f"echo $HOME; {_AT_HOME}; {_COMMIT}; git config alias.mine || echo no alias"
    ended = crabpot("run", "--in", str(project), "--direct", "--", "shell", "-c", script)
    assert ended.out == "/home/agent\nAnna anna@example.com\nno alias\n", ended.err
    again = crabpot("run", "--in", str(project), "--direct", "--", "shell", "-c", "cat ~/.bash_history")
    assert again.out == "typed\n"
    assert entries(project) == [".git", "notes.txt"]
    assert not (crabpot.home / ".bash_history").exists()
