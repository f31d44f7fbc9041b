"""`crabpot changes`, as a person uses it after a session under review: as root and as an ordinary user, on every backend."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.layers.store import LayerStore
from tests.support.backends import engine_host, skip_or_fail
from tests.support.layers import picture
from tests.support.ordinary_user import UID, engine_environ, engine_groups, interpreter, readable_source

if TYPE_CHECKING:
    from collections.abc import Iterator

_SESSION = "agent:main:main"
_BRANCH = "crabpot/agent-main-main-6d9217fe/feature"
_WORK = r"""
set -e
echo two >> a.txt; rm gone.txt; echo new > new.txt; mv old.txt renamed.txt; chmod 755 tool.sh
ln -s a.txt link; ln -s /etc/passwd out; mkdir -p .vscode dir; echo '{}' > .vscode/tasks.json; echo in > dir/in
printf 'bidi \342\200\256 text\n' > bidi.txt; printf 'x' > "$(printf 'new\nline')"
git checkout -q -b feature; git add -A; git -c user.name=agent -c user.email=a@example.com commit -qm 'the work'
echo evil > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; git config core.fsmonitor ./evil
"""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody with a project, who lets an agent work on it under review."""

    place: Path
    uid: int | None
    environ: dict[str, str]
    python: str
    groups: list[int]
    backend: str

    @property
    def project(self) -> Path:
        return self.place / "project"

    def __call__(self, *words: str, code: int | None = 0) -> str:
        """Run crabpot in the project, and return what it printed."""
        argv = [self.python, "-m", "crabpot", "--config", f"{self.place}/c.json5", "--state", f"{self.place}/state"]
        ended = self.run(*argv, *words)
        assert code in (None, ended.returncode), f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout + ("" if code == 0 else ended.stderr)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a program as this person, in the project."""
        who: dict[str, Any] = {} if self.uid is None else {"user": self.uid, "group": self.uid}
        if self.uid is not None:
            who["extra_groups"] = self.groups
        return subprocess.run(
            argv, env=self.environ, cwd=self.project, capture_output=True, text=True, timeout=180, check=False, **who
        )

    def told(self, *words: str, code: int | None = 0) -> Any:
        """Return what a command told as JSON."""
        return json.loads(self(*words, "--json", code=code))

    def agent(self, script: str) -> None:
        """Let the agent work."""
        self("exec", "--timeout", "120", "--", script)

    def git(self, *words: str) -> str:
        """Run the person's own git."""
        return self.run("git", *words).stdout


_KINDS = [("bubblewrap", "root"), ("bubblewrap", "user"), ("docker", "root"), ("docker", "user")]


@pytest.fixture(params=_KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    backend, who = request.param
    if os.geteuid() != 0 and who == "user":
        pytest.skip("this run is an ordinary user's already")
    if backend == "docker":
        host = engine_host()
        said = subprocess.run(
            ["docker", "-H", host, "image", "inspect", "crabpot-sandbox:latest"],
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode != 0:
            skip_or_fail("docker", said.stderr)
    with ExitStack() as stack:
        # Not below pytest's folder, which only its owner may enter.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-review-")))
        place.chmod(0o755)
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(place),
            "CRABPOT_LINGER": "0",
            **engine_environ(),
        }
        python = sys.executable
        if who == "user":
            given, _ = stack.enter_context(readable_source())
            environ |= {"PYTHONPATH": given["PYTHONPATH"], "PYTHONDONTWRITEBYTECODE": "1"}
            python = interpreter()
        else:
            environ["PYTHONPATH"] = ":".join(sys.path)
        one = Person(
            place=place,
            uid=UID if who == "user" else None,
            environ=environ,
            python=python,
            groups=engine_groups() if backend == "docker" else [],
            backend=backend,
        )
        _prepare(one)
        yield one


def _prepare(one: Person) -> None:
    one.project.mkdir()
    for name, text in {
        "a.txt": "one\n",
        "gone.txt": "g\n",
        "old.txt": "some\ntext\n",
        "tool.sh": "#!/bin/sh\n",
    }.items():
        (one.project / name).write_text(text)
    sandbox = f'{{workspace: "review", backend: "{one.backend}"}}'
    (one.place / "c.json5").write_text(f'{{agents: {{defaults: {{workspace: "{one.project}", sandbox: {sandbox}}}}}}}')
    # As root the agent is somebody else, and works in a folder of its own.
    subprocess.run(["chown", "-R", f"{UID}:{UID}", one.project], check=True)
    if one.uid is not None:
        os.chown(one.place, UID, UID)
    environ = {"PATH": one.environ["PATH"], "HOME": str(one.place), "CRABPOT_LINGER": "0"}
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=p", "-c", "user.email=p@example.com", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *words], cwd=one.project, env=environ, user=UID, group=UID, extra_groups=[], check=True)


def test_a_whole_session_is_looked_at_applied_undone_and_discarded(person: Person) -> None:
    before = picture(person.project)
    person.agent(_WORK)
    assert picture(person.project) == before

    told = person.told("changes", "list")
    mechanism = "overlay" if person.backend == "bubblewrap" else "copy"
    assert (told["session"], told["folder"], told["mechanism"]) == (_SESSION, str(person.project), mechanism)
    found = {one["path"]: one for one in told["files"]}
    assert {path: (one["action"], one["type"]) for path, one in found.items()} == {
        "a.txt": ("modified", "file"),
        "gone.txt": ("deleted", "file"),
        "new.txt": ("added", "file"),
        "old.txt": ("deleted", "file"),
        "renamed.txt": ("added", "file"),
        "tool.sh": ("modified", "file"),
        "link": ("added", "link"),
        "out": ("added", "link"),
        ".vscode": ("added", "folder"),
        ".vscode/tasks.json": ("added", "file"),
        "dir": ("added", "folder"),
        "dir/in": ("added", "file"),
        "bidi.txt": ("added", "file"),
        "new\nline": ("added", "file"),
        ".git/config": ("modified", "file"),
        ".git/hooks/pre-commit": ("added", "file"),
    }
    assert set(found["a.txt"]) == {"path", "action", "type", "mode", "size", "gate", "marked", "conflict"}
    assert found["out"]["gate"]
    assert found[".vscode/tasks.json"]["gate"]
    assert found["tool.sh"]["marked"] == "a file that became executable"
    assert not any(one["conflict"] for one in told["files"])
    (commit,) = told["commits"]
    assert (commit["branch"], commit["from"], commit["count"]) == ("feature", None, 1)

    diff = person("changes", "diff")
    for line in (
        "+two",
        "rename from old.txt",
        "rename to renamed.txt",
        "new mode 100755",
        "new file mode 120000",
        "+bidi <U+202E> text",
    ):
        assert line in diff.splitlines() or line in diff
    assert "\u202e" not in diff
    assert picture(person.project) == before

    part = person.told("changes", "apply", "a.txt", "dir/in")
    assert sorted(part["applied"]) == ["a.txt", "dir", "dir/in"]
    assert part["left"] == []
    assert part["undo"]
    assert (person.project / "a.txt").read_text() == "one\ntwo\n"
    assert (person.project / "a.txt").stat().st_uid == UID

    rest = person.told("changes", "apply", code=1)
    assert rest["branches"] == [_BRANCH]
    left = {one["path"]: one["why"] for one in rest["left"]}
    assert left == {
        "out": "gate",
        ".vscode": "gate",
        ".vscode/tasks.json": "gate",
        ".git/config": "refused",
        ".git/hooks/pre-commit": "refused",
    }
    owner = ("-c", f"safe.directory={person.project}")
    assert "the work" in person.git(*owner, "log", "-1", "--format=%s", _BRANCH)
    assert person.git(*owner, "fsck", "--strict") == ""
    assert not (person.project / ".git/hooks/pre-commit").exists()
    assert "fsmonitor" not in (person.project / ".git/config").read_text()
    assert {path.lstat().st_uid for path in person.project.rglob("*")} == {UID}

    gated = person.told("changes", "apply", "--gated", ".vscode", "out")
    assert sorted(gated["applied"]) == [".vscode", ".vscode/tasks.json", "out"]
    assert sorted(person.told("changes", "undo")["applied"]) == [".vscode", ".vscode/tasks.json", "out"]
    assert not (person.project / ".vscode").exists()

    _conflict_stays(person)
    person("changes", "discard")
    assert person.told("changes", "list") == {
        "session": _SESSION,
        "folder": str(person.project),
        "mechanism": mechanism,
        "files": [],
        "commits": [],
    }
    audited = person("audit", "tail", "-n", "200", "--json").splitlines()
    assert [record for record in map(json.loads, audited) if record["kind"] == "review" and "done" in record]


def _conflict_stays(person: Person) -> None:
    (person.project / "tool.sh").write_text("the person's\n")
    person.agent("echo agent > tool.sh; echo agent > again.txt")
    person("changes", "list")
    (person.project / "again.txt").write_text("the person's\n")
    told = {one["path"]: one["conflict"] for one in person.told("changes", "list")["files"]}
    assert told["again.txt"] is True
    assert {one["path"]: one["why"] for one in person.told("changes", "apply", "again.txt", code=1)["left"]} == {
        "again.txt": "conflict"
    }
    assert (person.project / "again.txt").read_text() == "the person's\n"
    (sides,) = person.told("changes", "diff", "again.txt")["sides"]
    assert (sides["path"], sides["base"]) == ("again.txt", "nothing")
    assert "+the person's" in sides["host"].splitlines()
    assert "+agent" in sides["agent"].splitlines()
    person.agent("echo agent >> renamed.txt")
    (person.project / "renamed.txt").write_text("the person's\n")
    shown = person("changes", "diff", "renamed.txt")
    for line in ("what the host made of renamed.txt", "what the agent made of renamed.txt", "-some", "+agent"):
        assert line in shown


def test_an_apply_that_was_killed_leaves_all_or_nothing(person: Person) -> None:
    if person.backend != "bubblewrap":
        pytest.skip("the same code, whichever backend made the layer")
    person.agent("for i in $(seq 400); do echo $i > f$i; done; echo two >> a.txt")
    argv = [person.python, "-m", "crabpot", "--config", f"{person.place}/c.json5", "--state", f"{person.place}/state"]
    who: dict[str, Any] = {} if person.uid is None else {"user": person.uid, "group": person.uid, "extra_groups": []}
    child = subprocess.Popen([*argv, "changes", "apply"], env=person.environ, cwd=person.project, **who)
    while child.poll() is None and not list(person.project.glob(".crabpot-*")):
        pass
    child.send_signal(signal.SIGKILL)
    child.wait()
    listed = person.told("changes", "list")["files"]
    there = {path.name for path in person.project.glob("f*")}
    assert (len(there), len(listed)) in ((0, 401), (400, 0))
    assert not list(person.project.glob(".crabpot-*"))


def test_two_people_cannot_apply_at_once(person: Person) -> None:
    if person.backend != "bubblewrap":
        pytest.skip("the same lock, whichever backend made the layer")
    person.agent("echo x > new.txt")
    store = LayerStore(str(person.place / "state"))
    layer = store.find(_SESSION)
    assert layer is not None
    with store.hold(layer):
        assert "is in use" in person("changes", "apply", code=1)
    assert person.told("changes", "apply")["applied"] == ["new.txt"]


def test_a_session_is_replayed_with_what_each_call_changed(person: Person) -> None:
    if person.backend != "bubblewrap":
        pytest.skip("the same log, whichever backend made the layer")
    person.agent("echo two >> a.txt")
    person.agent("echo more >> a.txt; head -c 2000000 /dev/zero > large")
    person("exec", "--", "echo three > b.txt; exit 3", code=3)
    person("changes", "apply", "b.txt")
    told = person("audit", "replay", _SESSION)
    lines = told.splitlines()
    assert any("exec echo two >> a.txt [sandbox] ok" in line for line in lines)
    assert any("exec echo three > b.txt; exit 3 [sandbox] exit 3" in line for line in lines)
    assert any("apply of changes, by the terminal" in line and "1 applied" in line for line in lines)
    assert "    changed a.txt" in lines
    first, second = (told.index(f"exec {text}") for text in ("echo two", "echo more"))
    assert first < told.index("    +two") < second < told.index("    +more")
    assert "    not kept: large" in lines
    # What was applied since is still told.
    assert "    +three" in lines
    assert "no record" in person("audit", "replay", "agent:main:nobody", code=1)


def test_where_several_sessions_changed_a_folder_a_command_says_whose_changes_it_means(person: Person) -> None:
    if person.backend != "bubblewrap":
        pytest.skip("the same choice, whichever backend made the layer")
    person.agent("echo x > new.txt")
    assert "also over it" not in person("changes", "list", code=None)
    person("fork", _SESSION, "agent:main:two")
    person("exec", "--session", "agent:main:two", "--", "echo y > other.txt")
    assert f"this is agent:main:two, which used the folder last; also over it: {_SESSION}" in person(
        "changes", "list", code=None
    )
    assert "also over it" not in person("changes", "discard", "--session", "agent:main:two", code=None)
    assert [one["path"] for one in person.told("changes", "list")["files"]] == ["new.txt"]
