"""Where the engine is looked for, and what is said when it is nowhere or far away."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from crabpot.backends.docker.location import find
from crabpot.errors import SandboxUnavailable


def context(home: Path, name: str, host: object) -> None:
    folder = home / ".docker"
    (folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()).mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"currentContext": name}))
    meta = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    meta.write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


def test_docker_host_comes_first(tmp_path: Path) -> None:
    context(tmp_path, "lab", "unix:///run/lab.sock")
    assert find({"DOCKER_HOST": "unix:///run/mine.sock"}, str(tmp_path)) == "/run/mine.sock"


@pytest.mark.parametrize(
    "host", ["tcp://10.0.0.1:2375", "ssh://me@far", "https://far", "fd://", "unix://relative", "far"]
)
def test_a_remote_engine_is_a_clear_error(tmp_path: Path, host: str) -> None:
    with pytest.raises(SandboxUnavailable, match=r"DOCKER_HOST names a remote engine .* not supported yet"):
        find({"DOCKER_HOST": host}, str(tmp_path))


def test_the_chosen_context_is_used(tmp_path: Path) -> None:
    context(tmp_path, "lab", "unix:///run/lab.sock")
    assert find({}, str(tmp_path)) == "/run/lab.sock"


def test_a_context_of_the_environment_beats_the_files(tmp_path: Path) -> None:
    context(tmp_path, "lab", "unix:///run/lab.sock")
    with pytest.raises(SandboxUnavailable, match='the docker context "other" does not exist'):
        find({"DOCKER_CONTEXT": "other"}, str(tmp_path))


def test_a_remote_context_is_a_clear_error(tmp_path: Path) -> None:
    context(tmp_path, "far", "ssh://me@far")
    with pytest.raises(SandboxUnavailable, match=r'context "far" names a remote engine \(ssh://me@far\)'):
        find({}, str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"currentContext": 7}'])
def test_a_broken_configuration_is_not_guessed_around(tmp_path: Path, text: str) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(text)
    with pytest.raises(SandboxUnavailable, match=r"config\.json"):
        find({}, str(tmp_path))


@pytest.mark.parametrize("host", [None, 7, {}])
def test_a_context_without_an_endpoint_says_so(tmp_path: Path, host: object) -> None:
    context(tmp_path, "odd", host)
    with pytest.raises(SandboxUnavailable, match="has no docker endpoint"):
        find({}, str(tmp_path))


def test_a_rootless_engine_is_found_by_its_socket(tmp_path: Path) -> None:
    (tmp_path / "docker.sock").touch()
    assert find({"XDG_RUNTIME_DIR": str(tmp_path)}, str(tmp_path)) == str(tmp_path / "docker.sock")


def test_desktops_socket_in_the_home_is_found(tmp_path: Path) -> None:
    (tmp_path / ".docker/run").mkdir(parents=True)
    (tmp_path / ".docker/run/docker.sock").touch()
    if Path("/var/run/docker.sock").exists():
        pytest.skip("this machine has an engine of its own")
    assert find({"XDG_RUNTIME_DIR": "/nowhere"}, str(tmp_path)) == str(tmp_path / ".docker/run/docker.sock")


def test_no_engine_at_all_says_what_to_do(tmp_path: Path) -> None:
    if Path("/var/run/docker.sock").exists():
        pytest.skip("this machine has an engine of its own")
    with pytest.raises(SandboxUnavailable, match=r"no docker engine was found .*systemctl start docker"):
        find({"XDG_RUNTIME_DIR": "/nowhere"}, str(tmp_path))
