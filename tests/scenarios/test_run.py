"""`crabpot run` as a person types it: headless, in a real sandbox, and what it says where it cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.backends import need
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.program import Program


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder of an ordinary user's, below /tmp."""
    need("bubblewrap")
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix="crabpot-project-")))
    (made / "notes.txt").write_text("mine\n")
    if os.geteuid() == 0:
        for path in (made, made / "notes.txt"):
            os.chown(path, 61234, 61234)
    yield made
    shutil.rmtree(made)


def test_an_agent_works_at_the_folders_own_path_and_the_folder_stays_as_it_is(crabpot: Program, project: Path) -> None:
    script = "pwd; echo $HOME; echo theirs > notes.txt; echo kept > ~/kept; curl -sS http://evil.example/; exit 7"
    done = crabpot("run", "--in", str(project), "--", "shell", "-c", script)
    assert done.code == 7
    assert done.out.splitlines()[:2] == [str(project), "/home/agent"]
    assert (project / "notes.txt").read_text() == "mine\n"
    assert "1 file changed, not yet in your folder" in done.err
    assert "~ notes.txt" in done.err
    assert "refused: evil.example:80: not listed; --allow evil.example:80 lists it" in done.err
    again = crabpot("run", "--in", str(project), "--", "shell", "-c", "true")
    assert "go on with --continue" in again.said()
    on = crabpot("run", "--in", str(project), "--continue", "--", "shell", "-c", "cat notes.txt ~/kept")
    assert (on.code, on.out) == (0, "theirs\nkept\n")
    session = on.err.split("--session ")[1].split()[0]
    applied = crabpot("changes", "apply", "--session", session)
    assert applied.code == 0, applied.err
    assert (project / "notes.txt").read_text() == "theirs\n"


def test_direct_changes_the_folder_and_private_never_sees_it(crabpot: Program, project: Path) -> None:
    done = crabpot("run", "--in", str(project), "--direct", "--", "shell", "-c", "echo direct > notes.txt")
    assert (done.code, (project / "notes.txt").read_text()) == (0, "direct\n")
    done = crabpot("run", "--in", str(project), "--private", "--", "shell", "-c", "pwd; ls -A; echo x > y")
    assert (done.code, done.out) == (0, "/workspace\n")
    assert sorted(path.name for path in project.iterdir()) == ["notes.txt"]


def test_what_cannot_run_is_a_clear_answer(crabpot: Program, project: Path) -> None:
    cases = {
        ("--in", "/", "--", "shell"): "the whole machine",
        ("--in", str(crabpot.home), "--", "shell"): "your home",
        ("--in", f"{project}/missing", "--", "shell"): "no such folder",
        ("--in", str(project), "--", "no-such-agent"): "not installed",
        ("--in", str(project), "--continue", "--", "shell"): "nothing to continue",
        ("--in", str(project), "--direct", "--continue", "--", "shell"): "does not go with",
        ("--in", str(project), "--secret", "X@a.example", "--", "shell"): "crabpot secrets set X",
        ("--in", str(project)): "run needs an agent",
    }
    for words, said in cases.items():
        done = crabpot("run", *words)
        assert done.code != 0
        assert said in done.said(), words


def test_a_preset_that_does_not_parse_is_named_with_its_line(crabpot: Program, project: Path) -> None:
    folder = crabpot.home / ".config/crabpot/presets"
    folder.mkdir(parents=True)
    (folder / "mine.json5").write_text("{program: 'x',\n hosts: 7}")
    said = crabpot("run", "--in", str(project), "--", "mine").said()
    assert "mine.json5:2: hosts: must be a list" in said


def test_secrets_are_kept_listed_and_forgotten_and_never_shown(crabpot: Program) -> None:
    assert crabpot("secrets", "list").out == "no secrets\n"
    assert crabpot("secrets", "set", "API_KEY", "--file", stdin=b"s3cret\n").code == 0
    listed = crabpot("secrets", "list")
    assert listed.out == "API_KEY  (file)\n"
    (kept,) = crabpot.home.rglob("secrets/API_KEY")
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (b"s3cret", 0o600)
    assert "cannot name a secret" in crabpot("secrets", "set", "../x", stdin=b"y").said()
    assert "nothing was given" in crabpot("secrets", "set", "EMPTY").said()
    assert crabpot("secrets", "remove", "API_KEY").code == 0
    assert "no secret is called API_KEY" in crabpot("secrets", "remove", "API_KEY").said()


@pytest.fixture
def at_terminal(crabpot: Program) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*arguments: str, **size: Any) -> Terminal:
        made.append(Terminal(crabpot, *arguments, **size))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_at_a_terminal_one_key_applies_what_changed(
    crabpot: Program, project: Path, at_terminal: Callable[..., Terminal]
) -> None:
    script = "test -t 0 && stty size && echo applied > new.txt"
    one = at_terminal("run", "--in", str(project), "shell", "-c", script, rows=31, cols=97)
    one.wait_for("31 97")
    one.wait_for("+ new.txt")
    one.wait_for("[k]eep")
    one.seen = ""
    one.type("l")
    one.wait_for("+applied")
    one.wait_for("[k]eep")
    one.type("a")
    assert one.end() == 0, one.seen
    assert (project / "new.txt").read_text() == "applied\n"
    assert sorted(path.name for path in project.iterdir()) == ["new.txt", "notes.txt"]


def test_a_question_rings_in_the_agents_terminal_and_is_answered_in_another(
    project: Path, at_terminal: Callable[..., Terminal]
) -> None:
    script = "curl -sS -m 60 http://asked.example/; echo over"
    agent = at_terminal("run", "--in", str(project), "--ask", "--", "shell", "-c", script)
    agent.wait_for("a question waits: crabpot approvals watch")
    person = at_terminal("approvals", "watch")
    person.wait_for("asked.example")
    person.wait_for("deny")
    time.sleep(1)  # A question is deaf at first, so that nothing typed before answers it.
    person.type("d not today\r")
    agent.wait_for("not today")
    agent.wait_for("over")
    assert agent.end() == 0


def test_a_second_run_in_one_folder_waits_for_nobody_and_loses_nothing(
    crabpot: Program, project: Path, at_terminal: Callable[..., Terminal]
) -> None:
    first = at_terminal("run", "--in", str(project), "--", "shell", "-c", "echo up; read x; echo $x > x.txt")
    first.wait_for("up")
    assert "another run is going on" in crabpot("run", "--in", str(project), "--", "shell", "-c", "true").said()
    first.type("done\r")
    first.wait_for("+ x.txt")
    first.wait_for("[k]eep")
    first.type("k")
    assert first.end() == 0
    kept = crabpot("run", "--in", str(project), "--continue", "--", "shell", "-c", "cat x.txt")
    assert kept.out == "done\n"


def _git(*words: str, at: Path) -> str:
    who = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org"}
    env = {**os.environ, **who, "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
    words = ("-c", "safe.directory=*", "-C", str(at), *words)
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True, env=env).stdout


def test_a_push_from_a_run_under_review_waits_for_a_person_and_goes_out_once_allowed(
    crabpot: Program, project: Path, tmp_path: Path
) -> None:
    crabpot.configure('{agents: {entries: {run: {sandbox: {hostCommands: ["git"]}}}}}')
    _git("init", "-q", "--bare", "remote.git", at=tmp_path)
    _git("init", "-q", "-b", "main", at=project)
    _git("remote", "add", "origin", f"file://{tmp_path}/remote.git", at=project)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "61234:61234", str(project)], check=True)
    inside = "/usr/bin/git -c user.name=A -c user.email=a@example.org"
    script = f"/usr/bin/git add notes.txt; {inside} commit -qm theirs; git push origin main"
    with tempfile.TemporaryFile() as said:
        words = ("run", "--in", str(project), "--", "shell", "-c", script)
        started = crabpot.start(*words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            wait_until(lambda: crabpot("approvals", "list", "--json").json, within_s=60)
            (request,) = crabpot("approvals", "list", "--json").json
            assert request["argv"] == ["git", "push", "origin", "main"]
            assert crabpot("approvals", "allow", request["id"]).code == 0
            assert started.wait(60) == 0
        finally:
            started.kill()
            started.wait()
    assert _git("log", "--format=%s", "main", at=tmp_path / "remote.git") == "theirs\n"


def test_a_gateway_killed_under_a_run_takes_the_agent_along_and_loses_no_change(
    crabpot: Program, project: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    script = "echo theirs > new.txt; echo up; exec sleep 300"
    with said.open("wb") as out:
        words = ("run", "--in", str(project), "--", "shell", "-c", script)
        started = crabpot.start(*words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            wait_until(lambda: "up\n" in said.read_text(), within_s=60)
        finally:
            started.kill()
            started.wait()
    on = crabpot("run", "--in", str(project), "--continue", "--", "shell", "-c", "cat new.txt; pgrep sleep")
    assert on.out == "theirs\n"
    assert "+ new.txt" in on.err
