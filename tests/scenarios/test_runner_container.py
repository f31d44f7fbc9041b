"""The rendered container of a runner on a socket: built and started by compose itself, used by real gateways."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.artefacts.runner import COPIED
from tests.support.program import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.scenarios.conftest import Docker, Program

OWNER = 1000


class Deployment:
    """A folder as in the document, with more in it than the runner may see, and its container."""

    def __init__(self, folder: Path, name: str, docker: Docker) -> None:
        self.folder = folder
        self.name = name
        self.docker = docker

    def compose(self, *arguments: str) -> None:
        environ = {**os.environ, "DOCKER_HOST": self.docker.host, "DOCKER_BUILDKIT": "0"}
        ended = subprocess.run(
            ["docker-compose", "--project-name", self.name, *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr

    @property
    def socket(self) -> str:
        return f"{self._mounted()['Source']}/runner.sock"

    @property
    def volume(self) -> str:
        return str(self._mounted()["Name"])

    def _mounted(self) -> dict[str, Any]:
        """Find the volume by what it is for: each version of compose names it in its own way."""
        mounts = json.loads(self.docker("container", "inspect", self.name).stdout)[0]["Mounts"]
        return next(mount for mount in mounts if mount["Destination"] == "/run/clawfactory")

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the runner's container, as an attacker would who had got there."""
        return self.docker("exec", self.name, *words)


@pytest.fixture
def deployed(crabpot: Program, docker: Docker, tmp_path: Path) -> Iterator[Deployment]:
    if os.geteuid() != 0:
        pytest.skip("the folders must belong to the container's user, which only root can arrange")
    folder = tmp_path / "clawfactory"
    for name in ("data/brain_work", "data/brain.git", "data/brain_ro", "data/secrets"):
        (folder / name).mkdir(parents=True)
        os.chown(folder / name, OWNER, OWNER)
    (folder / "data/secrets/key").write_text("secret")
    name = docker.name()
    made = crabpot("render", "runner-dockerfile", "--out", str(folder / "runner"))
    assert made.code == 0, made.err
    rendered = crabpot("render", "runner-compose")
    assert (rendered.code, rendered.err) == (0, "")
    # Names are one machine's; another test may have the same container.
    text = rendered.out.replace("clawfactory-runner", name)
    (folder / "docker-compose.yml").write_text(text)
    deployment = Deployment(folder, name, docker)
    try:
        deployment.compose("build", "--build-arg", "BASE=crabpot-sandbox:latest")
        deployment.compose("up", "--detach")
        deadline = time.monotonic() + 60
        while not os.path.exists(deployment.socket):
            assert time.monotonic() < deadline, docker("logs", name).stderr
            time.sleep(0.05)
        yield deployment
    finally:
        deployment.compose("down", "--volumes", "--rmi", "all")


def ask(path: str, **request: Any) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(path)
        with client.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline())
            return answer


def test_the_files_say_what_the_document_says(crabpot: Program, seeds: Path) -> None:
    document = (seeds / "clawfactory-runner.md").read_text()
    text = crabpot("render", "runner-compose").out
    for line in re.findall(r"- (\./data/\S+|socket-volume:\S+|no-new-privileges:true|ALL)", document):
        assert f'- "{line}"' in text
    assert "  runner:\n" in text
    assert 'container_name: "clawfactory-runner"' in text
    assert 'network_mode: "none"' in text
    for forbidden in ("brain_ro", "secrets", "docker.sock", "privileged", "cap_add", "ports"):
        assert forbidden not in text
    dockerfile = crabpot("render", "runner-dockerfile").out
    assert "USER ${UID}:${GID}" in dockerfile
    assert '"/run/clawfactory/runner.sock"' in dockerfile


def test_a_folder_with_other_programs_is_not_written_to(crabpot: Program, tmp_path: Path) -> None:
    (tmp_path / COPIED).mkdir()
    (tmp_path / COPIED / "evil.py").write_text("")
    ended = crabpot("render", "runner-dockerfile", "--out", str(tmp_path))
    assert ended.code == 2
    assert "evil.py" in ended.said()


def test_the_deployment_works_from_end_to_end_and_sees_nothing_else(deployed: Deployment, crabpot: Program) -> None:
    work = "/workspace/brain_work"
    path = deployed.socket

    # A plain client, to the letter of the document.
    assert ask(path, id="uuid", tool="git", args=["init", "-q"], cwd=work)["success"]
    answer = ask(path, id="uuid", tool="git", args=["status"], cwd=work)
    assert {name: answer[name] for name in ("id", "success", "exit_code")} == {
        "id": "uuid",
        "success": True,
        "exit_code": 0,
    }

    # A gateway on the host.
    def gateway(*arguments: str) -> str:
        ended = crabpot(*arguments, RUNNER_SOCKET=path)
        assert ended.code == 0, ended.err
        return ended.out

    gateway("call", "write", "--args", '{"path": "a.txt", "content": "hello"}')
    gateway("exec", "--", "git", "add", ".")
    gateway("exec", "--", "git", "commit", "-qm", "see /etc and ../..")
    gateway("exec", "--", "git", "init", "-q", "--bare", "/workspace/brain.git")
    gateway("exec", "--", "git", "push", "-q", "/workspace/brain.git", "HEAD:refs/heads/main")
    assert os.stat(deployed.folder / "data/brain_work/a.txt").st_uid == OWNER
    told = gateway("explain")
    for promise in ("user", "capabilities", "no-new-privileges"):
        assert re.search(rf"enforced +{promise}", told)

    # A gateway in another container, over the volume.
    said = deployed.docker(
        *(
            "run",
            "--rm",
            "--user",
            f"{OWNER}:{OWNER}",
            "--network",
            "none",
            "--volume",
            f"{deployed.volume}:/run/clawfactory",
        ),
        *("--volume", f"{REPOSITORY / 'src'}:/src:ro", "--env", "PYTHONPATH=/src", "--env", "HOME=/tmp/home"),
        *("--env", "RUNNER_SOCKET=/run/clawfactory/runner.sock", "crabpot-sandbox:latest"),
        *("python3", "-m", "crabpot", "exec", "--", "git", "log", "--format=%s"),
    )
    assert said.stdout == "see /etc and ../..\n", said.stderr

    # What an attacker would find who had broken out of the list.
    assert deployed.inside("ls", "/workspace").stdout.split() == ["brain.git", "brain_work"]
    assert deployed.inside("id", "-u").stdout.strip() == str(OWNER)
    for missing in ("/var/run/docker.sock", "/run/docker.sock", "/workspace/brain_ro", "/workspace/secrets"):
        assert deployed.inside("ls", missing).returncode != 0
    for place in ("/", "/opt/crabpot/runner", "/etc", "/usr/bin"):
        assert "Read-only" in deployed.inside("touch", f"{place}/planted").stderr
    assert deployed.inside("cat", "/proc/1/net/route").stdout.count("\n") <= 1
    status = dict(
        line.split(":\t", 1) for line in deployed.inside("cat", "/proc/1/status").stdout.splitlines() if ":\t" in line
    )
    assert (status["NoNewPrivs"], status["Seccomp"], int(status["CapBnd"], 16)) == ("1", "2", 0)
    assert "secret" not in deployed.inside("grep", "-r", "secret", "/workspace", "/run", "/tmp").stdout
