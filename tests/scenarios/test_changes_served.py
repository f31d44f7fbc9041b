"""`crabpot changes` beside a `serve` that has the session's sandbox, and so its layer."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

_WHO = ("-c", "user.name=a", "-c", "user.email=a@example.com")
_COMMIT = f"git {' '.join(_WHO)} commit -qam second"


@pytest.fixture
def project(crabpot: Program) -> Path:
    made = crabpot.home / "project"
    made.mkdir()
    (made / "file").write_text("the host's\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*_WHO, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=made, env=crabpot.environ, check=True)
    sandbox = {"workspace": "review", "backend": "bubblewrap"}
    crabpot.configure(json.dumps({"agents": {"defaults": {"workspace": str(made), "sandbox": sandbox}}}))
    return made


def test_the_gateway_that_serves_tells_the_commits_and_lets_go_of_the_layer(crabpot: Program, project: Path) -> None:
    with crabpot.serving():
        assert crabpot("exec", "--", f"echo more >> file; {_COMMIT}; echo new > new").code == 0
        assert (project / "file").read_text() == "the host's\n"

        told = crabpot("changes", "list", "--json", cwd=project).json
        assert [(one["path"], one["action"]) for one in told["files"]] == [("file", "modified"), ("new", "added")]
        assert [(one["branch"], one["count"]) for one in told["commits"]] == [("main", 1)]
        assert "+more" in crabpot("changes", "diff", "file").out.splitlines()

        done = crabpot("changes", "apply", "--json").json
        assert (done["applied"], done["left"]) == (["file", "new"], [])
        (branch,) = done["branches"]
        shown = ["git", "log", "-1", "--format=%s", branch]
        log = subprocess.run(shown, cwd=project, env=crabpot.environ, capture_output=True, text=True, check=True)
        assert log.stdout == "second\n"

        # The same session goes on in another sandbox, over the folder as it is now.
        assert crabpot("exec", "--", "cat file new; echo again > new").out == "the host's\nmore\nnew\n"
        assert crabpot("changes", "undo", "--json").json["left"] == []
        assert not (project / "new").exists()
        assert crabpot("exec", "--", "cat new").out == "again\n"
        assert crabpot("changes", "discard", "--json").json["discarded"] == ["file", "new"]
        assert crabpot("exec", "--", "cat file; ls").out == "the host's\nfile\n"


def test_what_runs_in_the_sandbox_keeps_its_layer(crabpot: Program, project: Path) -> None:
    with crabpot.serving():
        args = json.dumps({"command": "echo mine > new; sleep 1000", "background": True})
        process = crabpot("call", "exec", "--args", args).json["data"]["process"]
        wait_until(lambda: crabpot("changes", "list", "--json").json["files"], 60)
        for action in ("apply", "undo", "discard"):
            refused = crabpot("changes", action)
            assert refused.code == 1
            assert "something runs in the sandbox" in refused.said()
        assert not (project / "new").exists()
        assert crabpot("call", "process", "--args", json.dumps({"action": "kill", "id": process})).code == 0
        assert crabpot("changes", "apply", "--json").json["applied"] == ["new"]


def test_serve_warns_once_of_a_stale_layer_that_nobody_looked_at(crabpot: Program, project: Path) -> None:
    assert crabpot("exec", "--", "echo precious > new").code == 0
    (layer,) = (crabpot.state / "layers").iterdir()
    os.utime(layer / "lock", (1, 1))
    with _noisy(crabpot) as served:
        assert served.stderr is not None
        warning = served.stderr.readline().decode()
        assert warning.startswith("crabpot: note: warning: ")
        assert "crabpot changes list --session agent:main:main" in warning
        assert (layer / "upper/new").exists()


@contextmanager
def _noisy(crabpot: Program) -> Iterator[subprocess.Popen[bytes]]:
    served = crabpot.start("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield served
        served.terminate()
        _, complaints = served.communicate(timeout=60)
        assert (served.returncode, complaints) == (0, b"")
    finally:
        served.kill()
        served.communicate()
