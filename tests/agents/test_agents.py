"""The real Claude Code, Codex and OpenCode in the pot, against a scripted model, with their key outside.

Not among the other tests: `make test-agents` installs the agents from npm first.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.agents import KEY, made_preset, model_address, model_environ, model_tls
from tests.support.model_server import DONE, Script, scripted
from tests.support.pane import Pane
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

HEADLESS = {
    "claude": ("-p", "do it", "--allowedTools", "Bash"),
    "codex": ("exec", "-m", "gpt-5-codex", "--skip-git-repo-check", "do it"),
    "opencode": ("run", "-m", "anthropic/claude-sonnet-4-5", "do it"),
}
# How each is started with a prompt at a terminal, and what is typed to leave it.
ATTENDED = {
    "codex": (("-m", "gpt-5-codex", "do it"), "/quit"),
}
# As a pattern that does not match itself. What is under /usr is the system's own.
SEARCH = (
    f"grep -rsl --exclude-dir=usr --exclude-dir=sys --exclude-dir=proc --exclude-dir=dev '[s]{KEY[1:]}' / | head -3;"
    f" cat /proc/*/environ | tr '\\0' '\\n' | grep -c '[s]{KEY[1:]}'"
)


@pytest.fixture
def project(place: Path) -> Path:
    folder = place / "project"
    folder.mkdir()
    (folder / "README.md").write_text("hello\n")
    # In a file: some agents ask before a command that names folders elsewhere.
    (folder / "search.sh").write_text(SEARCH)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, 61234, 61234)
    return folder


@pytest.mark.parametrize("name", HEADLESS)
def test_headless_it_edits_is_refused_a_host_and_never_sees_its_key(
    name: str, crabpot: Program, project: Path, place: Path
) -> None:
    script = Script("echo made > made.txt; curl -sS -m 9 http://evil.example/; pwd", "sh search.sh; echo searched")
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, name, script.port)
        at = replace(crabpot, more=model_environ(place))
        done = at("run", "--in", str(project), "--", name, *HEADLESS[name])
    assert done.code == 0, done.err
    assert DONE in done.out
    assert any(KEY in key for key in script.keys), "the server got the real key"
    heard = json.dumps(script.results)
    assert KEY not in heard + done.out + done.err
    assert "evil.example:80 was refused" in heard
    assert "searched" in heard
    assert str(project) in heard, "the folder is at its own path"
    assert "refused: evil.example:80" in done.err
    assert "+ made.txt" in done.err
    assert sorted(path.name for path in project.iterdir()) == ["README.md", "search.sh"], "the folder is as it was"
    session = done.err.split("--session ")[1].split()[0]
    assert crabpot("changes", "apply", "--session", session).code == 0
    assert (project / "made.txt").read_text() == "made\n"


def test_claude_at_a_terminal_edits_and_one_key_applies_it(crabpot: Program, project: Path, place: Path) -> None:
    script = Script("echo made > made.txt")
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, "claude", script.port)
        words = ("run", "--in", str(project), "--", "claude", "--allowedTools", "Bash", "--", "do it")
        person = Terminal(replace(crabpot, more=model_environ(place)), *words, rows=40, cols=120)
        try:
            person.wait_for("trust", 60)
            person.type("\r")
            person.wait_for("over", 90)
            person.type("/exit\r")
            person.wait_for("[k]eep", 60)
            person.type("a")
            assert person.end() == 0, person.seen[-2000:]
        finally:
            person.close()
    assert (project / "made.txt").read_text() == "made\n"
    assert KEY not in person.seen


@pytest.mark.parametrize("name", ATTENDED)
def test_in_a_terminal_it_edits_and_one_key_applies_it(name: str, crabpot: Program, project: Path, place: Path) -> None:
    """In tmux: it asks its terminal questions, which a bare pseudo-terminal would leave unanswered."""
    words, leave = ATTENDED[name]
    script = Script("echo made > made.txt")
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, name, script.port)
        pane = Pane(replace(crabpot, more=model_environ(place)), place)
        try:
            pane.run("run", "--in", str(project), "--", name, *words)
            wait_until(lambda: script.results, 300)
            pane.shows(DONE)
            assert not (project / "made.txt").exists()
            pane.tmux("send-keys", "-l", leave)
            pane.shows(leave)
            pane.tmux("send-keys", "Enter")
            pane.shows("[k]eep")
            pane.tmux("send-keys", "-l", "a")
            seen = pane.shows("ended=0")
        finally:
            pane.end()
    assert "+ made.txt" in seen
    assert (project / "made.txt").read_text() == "made\n"
    assert KEY not in seen
    assert any(KEY in key for key in script.keys)


def _git(*words: str) -> str:
    who = ("-c", "safe.directory=*", "-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout


def test_claude_at_a_terminal_asks_to_push_and_is_allowed_in_another(
    crabpot: Program, project: Path, place: Path
) -> None:
    _git("init", "-q", "--bare", f"{place}/remote.git")
    _git("-C", str(project), "init", "-q", "-b", "main")
    _git("-C", str(project), "remote", "add", "origin", f"file://{place}/remote.git")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "61234:61234", str(project)], check=True)
    named = "git -c user.name=A -c user.email=a@example.org"
    script = Script(
        "echo made > made.txt; curl -sS -m 9 http://evil.example/",
        f"git add made.txt && {named} commit -qm made && git push origin main",
    )
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, "claude", script.port)
        at = replace(crabpot, more=model_environ(place))
        words = ("run", "--in", str(project), "--", "claude", "--allowedTools", "Bash", "--", "do it")
        agent = Terminal(at, *words, rows=40, cols=120)
        person = Terminal(at, "approvals", "watch")
        try:
            agent.wait_for("trust", 60)
            agent.type("\r")
            agent.wait_for("a question waits: crabpot approvals watch", 90)
            person.wait_for("git push origin main", 60)
            person.wait_for("deny")
            time.sleep(1)  # A question is deaf at first, so that nothing typed before answers it.
            person.type("o\r")
            agent.wait_for("over", 90)
            agent.type("/exit\r")
            agent.wait_for("refused: evil.example:80", 60)
            agent.wait_for("[k]eep", 60)
            agent.type("a")
            assert agent.end() == 0, agent.seen[-2000:]
        finally:
            agent.close()
            person.close()
    assert _git("-C", f"{place}/remote.git", "log", "--format=%s", "main") == "made\n"
    assert (project / "made.txt").read_text() == "made\n"
