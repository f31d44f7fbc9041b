"""Honest git, as a person uses it: push, fetch, pull and clone, over a real sshd and over a path, agreed to in a terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, replace

import pytest

from tests.support import sshd
from tests.support.backends import engine_host
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: an account is made and an sshd started")

SOWN = "git init -qb main . && git config user.name a && git config user.email a@b && echo 1 > f && git add f"
CONFIG = """{
  agents: { defaults: { workspace: "WS", sandbox: { workspace: "rw", backend: "BACKEND", hostCommands: [SHIMS] } } },
  tools: { elevated: { enabled: true, patterns: [PATTERNS] } },
}"""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A repository of somebody else's, and the account that it belongs to."""

    url: str
    path: str
    user: str

    def sh(self, text: str) -> str:
        """Run shell text as its owner."""
        words = ["su", self.user, "-s", "/bin/sh", "-c", text]
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def grows(self) -> None:
        """Have a colleague add a commit."""
        self.sh(
            f"d=$(mktemp -d) && cd $d && git clone -q {self.path} . && echo theirs > theirs && git add theirs"
            " && git -c user.name=c -c user.email=c@d commit -qm theirs && git push -q origin HEAD:main; rm -rf $d"
        )


@pytest.fixture
def remote(request, crabpot, tmp_path):
    if request.param == "path":
        made = Remote(url=f"{tmp_path}/r.git", path=f"{tmp_path}/r.git", user="root")
        made.sh(f"git init -q --bare -b main {made.path}")
        yield made
        return
    with sshd.running() as server:
        key = crabpot.home / "key"
        shutil.copy(server.key, key)
        key.chmod(0o600)
        ssh = f"ssh -F none -i {key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        (crabpot.home / ".gitconfig").write_text(f"[core]\n\tsshCommand = {ssh}\n")
        path = f"/home/{sshd.USER}/r.git"
        made = Remote(url=f"ssh://{sshd.USER}@127.0.0.1:{server.port}{path}", path=path, user=sshd.USER)
        made.sh(f"git init -q --bare -b main {path}")
        yield made


@pytest.fixture
def backend(request):
    return request.param


@pytest.fixture
def crabpot(crabpot, backend):
    """A program that knows the tests' own engine, and has a folder for its agent."""
    engine = {"DOCKER_HOST": engine_host()} if backend == "docker" else {}
    crabpot.workspace.mkdir()
    shutil.chown(crabpot.workspace, 1000, 1000)
    return replace(crabpot, more=engine)


def configure(program, backend, shims="", patterns=""):
    text = CONFIG.replace("WS", str(program.workspace)).replace("BACKEND", backend)
    program.configure(text.replace("SHIMS", shims).replace("PATTERNS", patterns))


def honest(git, remote, workspace):
    """Take a change to the remote and a colleague's back, by `git`, which asks in a terminal and sees the command end."""
    git("git push -u origin main", f"push to {remote.url}", "main → refs/heads/main, 1 commit, new here")
    assert remote.sh(f"git -C {remote.path} log --format=%s main") == "mine"
    remote.grows()
    git("git fetch origin", f"fetch from {remote.url}")
    assert not (workspace / "theirs").exists()
    git("git pull --ff-only", f"pull from {remote.url}")
    assert (workspace / "theirs").read_text() == "theirs\n"
    git(f"git clone {remote.url} copy", f"clone from {remote.url}")
    assert (workspace / "copy" / "theirs").read_text() == "theirs\n"


@pytest.mark.parametrize(("backend", "remote"), [("bubblewrap", "ssh"), ("docker", "path")], indirect=True)
def test_honest_git_directly(crabpot, backend, pane, remote):
    configure(crabpot, backend, patterns='"git push *", "git fetch *", "git pull *", "git clone *"')

    def git(command, *shown):
        pane.run("exec", "--", command)
        asked = pane.asked()
        assert [one for one in (command, *shown) if one not in asked] == []
        pane.answer("o")
        pane.shows("ended=0")

    with crabpot.serving():
        assert crabpot("exec", "--", f"{SOWN} && git commit -qm mine && git remote add origin {remote.url}").code == 0
        honest(git, remote, crabpot.workspace)
        assert crabpot("exec", "--", "git status -sb").out.startswith("## main...origin/main\n")


@pytest.mark.parametrize(("backend", "remote"), [("bubblewrap", "path"), ("docker", "ssh")], indirect=True)
def test_honest_git_by_a_shim(crabpot, backend, pane, remote):
    configure(crabpot, backend, shims='"git"')

    def typed(command):
        pane.type("clear")
        wait_until(lambda: "did=" not in pane.text, 60)
        pane.type(f"{command}; echo did=$?")

    def git(command, *shown):
        typed(command)
        asked = pane.asked()
        assert [one for one in (command, *shown) if one not in asked] == []
        pane.answer("o")
        pane.shows("did=0")

    pane.run("shell")
    pane.type("echo up=$((40 + 2))")
    pane.shows("up=42")
    typed(f"{SOWN} && git commit -qm mine && git remote add origin {remote.url}".replace("git ", "/usr/bin/git "))
    pane.shows("did=0")
    honest(git, remote, crabpot.workspace)
    typed("/usr/bin/git status -sb")
    assert "## main...origin/main" in pane.shows("did=0")
    pane.type("exit 7")
    pane.shows("ended=7")
