"""The real agents in the pot, against a scripted model, with their keys outside: headless, and in a terminal.

Not among the other tests: `make test-agents` installs the agents first.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.agents import KEY, PATIENCE_S, made_preset, model_address, model_environ, model_tls
from tests.support.model_server import DONE, Script, scripted
from tests.support.pane import Pane
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

# Codex's usual tool goes on after 30 seconds without a command that waits for a person.
CODEX = ("-m", "gpt-5-codex", "--disable", "unified_exec")
OPENCODE = ("-m", "anthropic/claude-sonnet-4-5")
HEADLESS = {
    "claude": ("-p", "do it", "--allowedTools", "Bash"),
    "codex": ("exec", *CODEX, "--skip-git-repo-check", "do it"),
    "opencode": ("run", *OPENCODE, "do it"),
    "gemini": ("-m", "gemini-2.5-pro", "--yolo", "-p", "do it"),
}
WAYS = [
    *((name, "upgrade") for name in ("claude", "codex", "opencode", "gemini")),
    *((name, "terminate") for name in ("claude", "codex", "opencode")),
]

BUN = ("claude", "opencode")
# How each is started with a prompt at a terminal, what it asks first, and what is typed to leave it.
ATTENDED = {
    "codex": ((*CODEX, "do it"), "Trust this folder", "/quit"),
    "opencode": ((*OPENCODE, "--prompt", "do it"), None, "/exit"),
}
EDIT = "echo made > made.txt; curl -sS -m 9 http://evil.example/; pwd"
GIT = "git -c user.name=A -c user.email=a@example.org"
PUSH = f"git add made.txt && {GIT} commit -qm made && git push origin main"
# In a file: some agents ask before a command that names folders elsewhere. The key is in two parts, not to find itself.
# What is under /usr, and packages, are the same for everybody. That the dummy is found shows that the search searches.
SEARCH = f"""
apart="--exclude-dir=usr --exclude-dir=sys --exclude-dir=proc --exclude-dir=dev
    --exclude-dir=node_modules --exclude-dir=site-packages"
key="{KEY[:3]}""{KEY[3:]}"
grep -rslF $apart "$key" / | sed 's/^/it is in the file /'
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > /tmp/started
grep -F "$key" /tmp/started | sed 's/^.*$/it is in a process/'
grep -q 'crabpot-keeps-' /tmp/started && echo "searched"
"""


def git(*words: str) -> str:
    who = ("-c", "safe.directory=*", "-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(place: Path) -> Path:
    """A repository with a remote."""
    folder = place / "project"
    folder.mkdir()
    (folder / "README.md").write_text("hello\n")
    (folder / "search.sh").write_text(SEARCH)
    git("init", "-q", "--bare", f"{place}/remote.git")
    git("-C", str(folder), "init", "-q", "-b", "main")
    git("-C", str(folder), "remote", "add", "origin", f"file://{place}/remote.git")
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "61234:61234", str(folder)], check=True)
    return folder


@contextmanager
def started(at: Program, place: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """Start a program with no terminal; what it says is in two files."""
    out, err = place / "out", place / "err"
    with out.open("wb") as one, err.open("wb") as other:
        running = at.start(*words, stdin=subprocess.DEVNULL, stdout=one, stderr=other)
    try:
        yield running, out, err
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(("name", "tls"), WAYS)
def test_headless_it_edits_is_refused_a_host_asks_to_push_and_never_sees_its_key(
    name: str, tls: str, crabpot: Program, project: Path, place: Path
) -> None:
    script, terminate = Script(EDIT, "sh search.sh", PUSH), tls == "terminate"
    named = terminate and name in BUN
    with scripted(script, model_tls(place), model_address(named=named)):
        made_preset(crabpot, name, script.port, terminate=terminate, named=named)
        at = replace(crabpot, more=model_environ(place))
        words = ("run", "--in", str(project), "--", name, *HEADLESS[name])
        with started(at, place, *words) as (running, said, told):
            waits = lambda: running.poll() is not None or at("approvals", "list", "--json").json  # noqa: E731
            question = wait_until(waits, PATIENCE_S)
            assert running.poll() is None, (said.read_text(), told.read_text(), script.results)
            assert question[0]["argv"] == ["git", "push", "origin", "main"]
            assert at("approvals", "allow", question[0]["id"]).code == 0
            assert running.wait(PATIENCE_S) == 0, told.read_text()
    out, err = said.read_text(), told.read_text()
    assert DONE in out
    assert any(KEY in key for key in script.keys), "the server got the real key"
    edited, searched, _ = script.results
    assert "evil.example:80 was refused" in edited
    assert str(project) in edited, "the folder is at its own path"
    assert "it is in" not in searched
    assert "searched" in searched
    assert KEY not in b"".join(script.bodies).decode() + out + err
    assert "refused: evil.example:80" in err
    assert "+ made.txt" in err
    assert git("-C", f"{place}/remote.git", "log", "--format=%s", "main") == "made\n"
    assert not (project / "made.txt").exists(), "the folder is as it was"
    session = err.split("--session ")[1].split()[0]
    assert crabpot("changes", "apply", "--session", session).code == 0
    assert (project / "made.txt").read_text() == "made\n"


@pytest.mark.parametrize("name", ATTENDED)
def test_in_a_terminal_it_edits_is_refused_a_host_asks_to_push_and_one_key_applies_it(
    name: str, crabpot: Program, project: Path, place: Path
) -> None:
    """In tmux: agents ask their terminal questions, which a bare pseudo-terminal would leave unanswered."""
    (given, asks, leave), script = ATTENDED[name], Script(EDIT, PUSH)
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, name, script.port)
        at = replace(crabpot, more=model_environ(place))
        agent, person = (Pane(at, place, patience_s=PATIENCE_S) for _ in range(2))
        try:
            agent.run("run", "--in", str(project), "--", name, *given)
            if asks is not None:
                agent.shows(asks)
                agent.tmux("send-keys", "Enter")
            person.run("approvals", "watch")
            person.shows("git push origin main")
            person.answer("o")
            wait_until(lambda: len(script.results) == len(script.steps), PATIENCE_S)
            agent.shows(DONE)
            assert not (project / "made.txt").exists()
            agent.tmux("send-keys", "-l", leave)
            agent.shows(leave)
            agent.tmux("send-keys", "Enter")
            agent.shows("[k]eep")
            agent.tmux("send-keys", "-l", "a")
            seen = agent.shows("ended=0")
        finally:
            agent.end()
            person.end()
    assert "evil.example:80 was refused" in script.results[0]
    assert "refused: evil.example:80" in seen
    assert "+ made.txt" in seen
    assert git("-C", f"{place}/remote.git", "log", "--format=%s", "main") == "made\n"
    assert (project / "made.txt").read_text() == "made\n"
    assert KEY not in b"".join(script.bodies).decode() + seen
    assert any(KEY in key for key in script.keys)


def test_claude_at_a_terminal_asks_to_push_and_is_allowed_in_another(
    crabpot: Program, project: Path, place: Path
) -> None:
    script = Script(EDIT, PUSH)
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, "claude", script.port)
        at = replace(crabpot, more=model_environ(place))
        words = ("run", "--in", str(project), "--", "claude", "--allowedTools", "Bash", "--", "do it")
        agent = Terminal(at, *words, rows=40, cols=120)
        person = Terminal(at, "approvals", "watch")
        try:
            agent.wait_for("trust", PATIENCE_S)
            agent.type("\r")
            agent.wait_for("a question waits: crabpot approvals watch", PATIENCE_S)
            person.wait_for("git push origin main", PATIENCE_S)
            person.wait_for("deny", PATIENCE_S)
            time.sleep(1)  # A question is deaf at first, so that nothing typed before answers it.
            person.type("o\r")
            agent.wait_for("over", PATIENCE_S)
            agent.type("/exit\r")
            agent.wait_for("refused: evil.example:80", PATIENCE_S)
            agent.wait_for("[k]eep", PATIENCE_S)
            agent.type("a")
            assert agent.end() == 0, agent.seen[-2000:]
        finally:
            agent.close()
            person.close()
    assert git("-C", f"{place}/remote.git", "log", "--format=%s", "main") == "made\n"
    assert (project / "made.txt").read_text() == "made\n"
    assert KEY not in agent.seen
