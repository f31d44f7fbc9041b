"""Wiring: which configuration, which state, and which sockets no sandbox may have."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.app import start
from crabpot.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_home_is_the_environments(tmp_path: Path) -> None:
    app = start(config=None, state=None, environ={"HOME": str(tmp_path)})
    assert (app.config, app.around.config) == (None, "")
    assert app.around.home == str(tmp_path)
    assert app.around.state == f"{tmp_path}/.local/state/crabpot"


def test_without_a_home_the_accounts_own_is_taken() -> None:
    for environ in ({}, {"HOME": ""}):
        assert start(config=None, state=None, environ=environ).around.home == os.path.expanduser("~")


@pytest.mark.parametrize(
    ("environ", "sockets"),
    [
        ({"DOCKER_HOST": "unix:///srv/engine.sock"}, ("/srv/engine.sock",)),
        ({"CONTAINER_HOST": "unix:///srv/p.sock", "DOCKER_HOST": "unix:///srv/d.sock"}, ("/srv/d.sock", "/srv/p.sock")),
        ({"DOCKER_HOST": "tcp://10.0.0.1:2375"}, ()),
        ({"DOCKER_HOST": "unix://relative"}, ()),
        ({}, ()),
    ],
)
def test_the_engines_that_the_environment_names_are_known(
    environ: dict[str, str], sockets: tuple[str, ...], tmp_path: Path
) -> None:
    assert start(config=None, state=None, environ={"HOME": str(tmp_path), **environ}).around.runtime_sockets == sockets


def test_the_socket_of_the_engine_in_use_cannot_be_bound(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{agents: {defaults: {sandbox: {binds: ['/srv/engine:/x']}}}}")
    environ = {"HOME": str(tmp_path / "home")}
    start(config=str(file), state=None, environ=environ).settings()
    with pytest.raises(ConfigError, match="a container runtime's socket"):
        start(config=str(file), state=None, environ={**environ, "DOCKER_HOST": "unix:///srv/engine/docker"}).settings()


def test_a_state_folder_inside_the_workspace_is_refused(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    start(config=None, state=str(tmp_path / "state"), environ=environ).settings()
    for state in ("agent", "agent/state", "."):
        with pytest.raises(ConfigError, match="Crabpot's own state"):
            start(config=None, state=str(tmp_path / state), environ=environ).settings()
