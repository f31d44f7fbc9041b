"""Git that leaves by a session's own words: asked about, leased, and carried out, from `exec` and from a shim."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.app import start
from crabpot.approvals.requests import Answer
from tests.support import sshd
from tests.support.backends import engine_host
from tests.support.ordinary_user import UID, interpreter, readable_source
from tests.support.suites import take_over
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from crabpot.approvals.requests import Request

SESSION = "agent:main:x"
SOWN = (
    "git init -q -b main . && git config user.name n && git config user.email n@x && echo 1 > f && git add f"
    " && git commit -qm one && git remote add origin "
)


class Person:
    """An operator who agrees, and remembers what was shown."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answer = Answer(allowed=True, by="person")

    async def ask(self, request: Request) -> Answer:
        self.asked.append(request)
        return self.answer


@pytest.fixture(params=["bubblewrap", "docker"])
def gateway(request: pytest.FixtureRequest, folder: Path) -> Callable[..., Any]:
    if request.param == "docker":
        engine_host()

    @asynccontextmanager
    async def opened(
        home: Path | None = None, sandbox: str = ""
    ) -> AsyncIterator[tuple[Callable[..., Any], Person, Any]]:
        workspace = folder / "ws"
        workspace.mkdir(mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(workspace, 1000, 1000)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home or folder),
            "DOCKER_HOST": os.environ.get("DOCKER_HOST", ""),
        }
        take_over(str(folder / "state"))
        made = start(config=None, state=str(folder / "state"), environ=environ).gateway(f"""{{
            agents: {{defaults: {{workspace: "{workspace}", sandbox: {{
                workspace: "rw", backend: "{request.param}", {sandbox} }} }} }},
            tools: {{elevated: {{enabled: true, patterns: ["git push *", "git fetch *", "git clone *", "git pull *", "git status"] }} }},
        }}""")
        person = Person()
        made.desk.attach(person)

        async def run(command: str) -> Any:
            return await made.call(SESSION, "exec", command=command, timeout=60)

        try:
            yield run, person, made
        finally:
            await made.close()

    return opened


@pytest.fixture
def remote(folder: Path, git: Any) -> Path:
    made = folder / "operator" / "r.git"
    made.mkdir(parents=True)
    git("init", "-q", "--bare", "-b", "main", made)
    return made


async def test_the_request_shows_url_refspecs_and_commits_and_a_lease_covers_the_next_commits(
    gateway: Any, remote: Path, git: Any
) -> None:
    async with gateway() as (run, person, _):
        assert (await run(SOWN + str(remote))).success
        person.answer = Answer(allowed=True, grant="minutes", minutes=5, by="person")
        result = await run("git push origin main")
        assert (result.exit_code, result.error, result.place) == (0, None, "host")
        (asked,) = person.asked
        assert asked.effects[0] == f"push to {remote}"
        assert asked.effects[1].startswith("main → refs/heads/main, 1 commit, new here")
        assert (asked.confine, asked.lasting) == ("git", True)
        assert asked.dangers == (f"{remote} is a folder of this machine",)
        await run("echo 2 > f && git commit -qam two")
        assert (await run("git push origin main")).success
        assert git("rev-list", "--count", "main", cwd=remote) == "2"
        assert len(person.asked) == 1
        # The same words mean another URL now, and so are asked about again.
        other = remote.parent / "other.git"
        git("init", "-q", "--bare", other)
        await run(f"git remote set-url origin {other}")
        person.answer = Answer(allowed=False, by="person")
        result = await run("git push origin main")
        assert result.error.code == "approval_denied"
        assert len(person.asked) == 2
        assert not git("for-each-ref", cwd=other)


async def test_a_shim_inside_goes_the_same_way(gateway: Any, remote: Path, git: Any) -> None:
    async with gateway(sandbox='hostCommands: ["git"]') as (run, person, _):
        real = SOWN.replace("git ", "/usr/bin/git ")
        assert (await run(real + str(remote))).success
        # A pipe, so that it is no simple command that would leave by itself.
        result = await run(
            "git push -u origin main 2>&1 | cat; git fetch origin | cat; /usr/bin/git config branch.main.merge"
        )
        assert (result.success, "main -> main" in result.stdout) == (True, True), result
        assert result.stdout.endswith("refs/heads/main\n")
        assert git("rev-list", "--count", "main", cwd=remote) == "1"
        assert [asked.effects[0].split()[0] for asked in person.asked] == ["push", "fetch"]


async def test_a_signal_to_the_shim_ends_the_push_and_leaves_no_ref(gateway: Any, remote: Path, git: Any) -> None:
    (remote / "hooks").mkdir(exist_ok=True)
    hook = remote / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\necho $$ > {remote}/new\nmv {remote}/new {remote}/pid\nexec sleep 1000\n")
    hook.chmod(0o755)
    async with gateway(sandbox='hostCommands: ["git"]') as (run, _, _made):
        await run(SOWN.replace("git ", "/usr/bin/git ") + str(remote))
        pushing = asyncio.create_task(run("git push origin main & echo $! > shim; wait $!; echo $?"))
        await until((remote / "pid").exists, within_s=60)
        pid = int((remote / "pid").read_text())
        assert (await run("kill -TERM $(cat shim)")).success
        result = await pushing
        assert result.stdout.strip() not in ("", "0"), result
        await until(lambda: not os.path.exists(f"/proc/{pid}"))
        assert not git("for-each-ref", cwd=remote)


async def test_refusals_come_before_anybody_is_asked(gateway: Any, remote: Path) -> None:
    async with gateway() as (run, person, made):
        await run(SOWN + str(remote))
        result = await run("git push --mirror origin")
        assert (result.error.code, "--mirror" in result.error.message) == ("denied", True)
        result = await run("git clone bare.git x")
        assert "a sandbox may write" in result.error.message
        assert person.asked == []
        # No agent has the call by which the gateway reaches the sandbox's git.
        result = await made.call(SESSION, "run", argv=["/bin/true"])
        assert (result.success, result.place) == (False, "none")


def served() -> None:
    """Make a repository that belongs to the account behind the server."""
    subprocess.run(["su", sshd.USER, "-c", "git init -q --bare -b main ~/r.git"], check=True, timeout=20)


async def test_over_ssh_with_the_operators_own_key(gateway: Any, folder: Path) -> None:
    with sshd.running() as server:
        home = folder / "home"
        home.mkdir()
        shutil.copy(server.key, home / "key")
        (home / "key").chmod(0o600)
        command = f"ssh -i {home}/key -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -F none"
        (home / ".gitconfig").write_text(f"[core]\n\tsshCommand = {command}\n")
        served()
        url = f"ssh://{sshd.USER}@127.0.0.1:{server.port}/home/{sshd.USER}/r.git"
        async with gateway(home) as (run, person, _):
            await run(SOWN + url)
            result = await run("git push -u origin main")
            assert result.success, result
            assert person.asked[0].dangers == ("127.0.0.1 is this machine",)
            cloned = await run(f"git clone {url} copy")
            assert cloned.success, cloned
            pulled = await run("git pull --ff-only")
            assert (pulled.exit_code, "up to date" in pulled.stdout) == (0, True), pulled
            assert (await run("cat copy/f")).stdout == "1\n"


def test_an_ordinary_user_pushes_and_fetches() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    program = """
import asyncio, os, subprocess, sys
from crabpot import app
from crabpot.approvals.requests import Answer
class Yes:
    async def ask(self, request):
        print(request.effects)
        return Answer(allowed=True, by="person")
async def main():
    home = os.environ["HOME"]
    os.mkdir(home + "/ws")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", home + "/r.git"], check=True)
    text = '{agents: {defaults: {workspace: "%s/ws", sandbox: {workspace: "rw", backend: "bubblewrap"}}}, tools: {elevated: {enabled: true, patterns: ["git *"]}}}' % home
    gateway = app.start(config=None, state=home + "/state", environ=os.environ).gateway(text)
    gateway.desk.attach(Yes())
    try:
        for command in (sys.argv[1] + home + "/r.git", "git push -u origin main", "git fetch origin", "git pull"):
            result = await gateway.call("agent:main:x", "exec", command=command, timeout=60)
            assert result.success, (command, result)
    finally:
        await gateway.close()
    print(subprocess.run(["git", "-C", home + "/r.git", "rev-list", "--count", "main"], check=True, capture_output=True, text=True).stdout)
asyncio.run(main())
"""
    with readable_source() as (environ, home):
        done = subprocess.run(
            [interpreter(), "-c", program, SOWN],
            env=environ,
            cwd=home,
            user=UID,
            group=UID,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-2] == "1"


@pytest.mark.parametrize("name", ["HEAD", "config"])
async def test_a_repository_that_never_answers_takes_no_longer_than_its_call_may(gateway, folder, name) -> None:
    async with gateway() as (run, person, made):
        assert (await run(SOWN + str(folder / "no.git"))).success
        assert (await run(f"rm -f .git/{name}; mkfifo .git/{name}")).success
        ended = await made.call(SESSION, "exec", command="git push origin main", timeout=3)
        assert (ended.error.code, ended.place) == ("timeout", "none"), ended
        assert "the time limit" in ended.error.message
        assert not person.asked
