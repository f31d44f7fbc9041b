"""`crabpot run` as a person types it: headless, in a real sandbox, and what it says where it cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager
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
    (folder / "mine.json5").write_text("{program: 'no-such-agent', install: 'pipx install it'}")
    said = crabpot("run", "--in", str(project), "--", "mine").said()
    assert "no-such-agent is not installed (it is not on your PATH): pipx install it" in said


def test_a_host_file_that_was_replaced_meanwhile_is_told_and_not_overwritten(crabpot: Program, project: Path) -> None:
    assert crabpot("run", "--in", str(project), "--", "shell", "-c", "echo theirs > notes.txt").code == 0
    (project / "notes.txt").unlink()
    (project / "notes.txt").write_text("mine again, and another file\n")
    on = crabpot("run", "--in", str(project), "--continue", "--", "shell", "-c", "cat notes.txt")
    assert on.out == "theirs\n"
    assert "~ notes.txt  (conflict: changed outside too)" in on.err
    crabpot("changes", "apply", "--session", on.err.split("--session ")[1].split()[0])
    assert (project / "notes.txt").read_text() == "mine again, and another file\n"


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
    script = "test -t 0 && stty size && curl -sSo /dev/null http://evil.example/; echo applied > new.txt"
    one = at_terminal("run", "--in", str(project), "shell", "-c", script, rows=31, cols=97)
    one.wait_for("31 97")
    one.wait_for("refused: evil.example:80: not listed")
    assert "was refused" not in one.seen, "nothing is written into the agent's picture"
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


@pytest.fixture
def remote(project: Path, tmp_path: Path) -> Path:
    """Make the project a repository, with a remote that is returned."""
    _git("init", "-q", "--bare", "remote.git", at=tmp_path)
    _git("init", "-q", "-b", "main", at=project)
    _git("remote", "add", "origin", f"file://{tmp_path}/remote.git", at=project)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "61234:61234", str(project)], check=True)
    return tmp_path / "remote.git"


def _question(crabpot: Program) -> dict[str, Any]:
    wait_until(lambda: crabpot("approvals", "list", "--json").json, within_s=60)
    (request,) = crabpot("approvals", "list", "--json").json
    return dict(request)


@contextmanager
def _running(
    crabpot: Program, project: Path, script: str, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a headless run; what it says is in a file."""
    with tempfile.NamedTemporaryFile() as said:
        words = ("run", "--in", str(project), *options, "--", "shell", "-c", script)
        started = crabpot.start(*words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield started, Path(said.name)
        finally:
            started.kill()
            started.wait()


_COMMITS = "git add notes.txt; git -c user.name=A -c user.email=a@example.org commit -qm theirs; "


def test_without_configuration_a_push_waits_for_a_person_and_the_rest_of_git_does_not(
    crabpot: Program, project: Path, remote: Path
) -> None:
    with _running(crabpot, project, f"{_COMMITS} cd /; git -C {project} push origin main") as (started, said):
        request = _question(crabpot)
        assert (request["argv"], request["source"]) == (["git", "push", "origin", "main"], "crabpot run")
        assert crabpot("approvals", "allow", request["id"]).code == 0
        assert started.wait(60) == 0, said.read_text()
        assert "asks you before it runs on the host: git push" in said.read_text()
    assert _git("log", "--format=%s", "main", at=remote) == "theirs\n"


def test_commits_are_told_at_the_end_and_arrive_as_a_branch(crabpot: Program, project: Path, remote: Path) -> None:
    done = crabpot("run", "--in", str(project), "--", "shell", "-c", f"cd {project}; {_COMMITS} true")
    assert "1 commit on main" in done.err
    assert "the changes are kept" in done.err, "though no file changed"
    session = done.err.split("--session ")[1].split()[0]
    assert "1 commit on main" in crabpot("changes", "list", "--session", session).out
    refused = crabpot("run", "--in", str(project), "--", "shell", "-c", "true")
    assert "an earlier run left changes" in refused.err, "the next run does not lose them"
    applied = crabpot("changes", "apply", "--session", session)
    assert applied.code == 0, applied.err
    branch = _git("branch", "--list", "crabpot/*", "--format=%(refname:short)", at=project).strip()
    assert _git("log", "--format=%s", branch, at=project) == "theirs\n"
    assert remote.exists()


def test_a_push_that_was_denied_is_told_at_the_end_with_the_reason(
    crabpot: Program, project: Path, remote: Path
) -> None:
    with _running(crabpot, project, f"{_COMMITS} git push origin main; git push --mirror") as (started, said):
        assert crabpot("approvals", "deny", _question(crabpot)["id"], "--reason", "not on a Friday").code == 0
        assert started.wait(60) == 126, said.read_text()
        assert "refused: git push origin main: not on a Friday" in said.read_text()
        assert "refused: git push --mirror" in said.read_text()
    assert _git("for-each-ref", at=remote) == ""


def test_a_file_that_offers_no_host_command_keeps_the_push_inside(
    crabpot: Program, project: Path, remote: Path
) -> None:
    crabpot.configure("{agents: {entries: {run: {sandbox: {hostCommands: []}}}}}")
    done = crabpot("run", "--in", str(project), "--", "shell", "-c", f"{_COMMITS} command -v git; git push origin main")
    assert done.code == 128
    assert done.out == "/usr/bin/git\n"
    assert _git("for-each-ref", at=remote) == ""


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


def test_ports_of_a_run_are_listed_opened_and_closed_from_another_terminal(crabpot: Program, project: Path) -> None:
    (project / "page.txt").write_text("from inside")
    assert "no gateway runs" in crabpot("ports", "list").said()
    script = "exec python3 -u -m http.server --bind 127.0.0.1 8123"
    with _running(crabpot, project, script) as (started, said):
        wait_until(lambda: "8123" in said.read_text(), within_s=60)
        assert crabpot("ports", "list").out.startswith("no ports are open")
        (opened,) = crabpot("ports", "open", "8123", "--json").json
        assert opened["port"] == 8123
        assert crabpot("ports", "list", "--json").json == [opened]
        with urllib.request.urlopen(f"{opened['address']}/page.txt", timeout=60) as answer:
            assert answer.read() == b"from inside"
        assert "not open" in crabpot("ports", "close", "8124").said()
        assert crabpot("ports", "close", "8123", "--session", opened["session"]).out.startswith("no ports are open")
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(opened["address"], timeout=60)
        assert "which one" in crabpot("ports", "open").said()
        assert "no sandbox of agent:main:x" in crabpot("ports", "open", "80", "--session", "agent:main:x").said()
        assert "port   open 8123 inside at 127.0.0.1:" in crabpot("audit", "tail").out
        started.terminate()
        started.wait()
    assert "no gateway runs" in crabpot("ports", "list").said()


def test_questions_come_to_the_dashboard_whose_address_is_printed_at_the_start(
    crabpot: Program, project: Path, tmp_path: Path
) -> None:
    secret = crabpot("tokens", "add", "me", "--role", "operator").out.split()[-1]
    served = tmp_path / "served"
    with served.open("wb") as out:
        serving = crabpot.start("serve", "--listen", "127.0.0.1:0", stdin=subprocess.DEVNULL, stdout=out)
        try:
            wait_until(lambda: "HTTP on" in served.read_text(), within_s=60)
            page = next(word.rstrip(";") for word in served.read_text().split() if word.startswith("http://"))
            script = "curl -sS -m 60 http://asked.example/ || true"
            with _running(crabpot, project, script, "--ask") as (started, said):
                wait_until(
                    lambda: f"questions: {page}/ (the dashboard), or crabpot approvals watch" in said.read_text(),
                    within_s=60,
                )
                request = _question(crabpot)
                asking = urllib.request.Request(
                    f"{page}/v1/approvals/{request['id']}",
                    data=b'{"allowed": false, "reason": "not now"}',
                    headers={"authorization": f"Bearer {secret}", "content-type": "application/json"},
                )
                with urllib.request.urlopen(asking, timeout=60) as answer:
                    assert answer.status == 200
                assert started.wait(60) == 0
                assert "not now" in said.read_text()
        finally:
            serving.terminate()
            serving.wait()
