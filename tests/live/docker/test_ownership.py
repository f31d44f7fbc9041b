"""Files that file tools and the shell make in a rw workspace have one owner on the host, whoever the gateway is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.ordinary_user import UID, readable_source, run_program

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine

MADE = {"by-write", "by-write/file", "by-patch", "by-shell", "by-shell/file"}
PROGRAM = Path(__file__).with_name("owning.py")


@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_under_root_everything_belongs_to_the_owner_of_the_workspace(
    engine: Engine, open_folder: Path, backend: str
) -> None:
    workspace = open_folder / "agent"
    workspace.mkdir()
    os.chown(workspace, 1234, 1235)
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), backend, str(open_folder)],
        env={**os.environ, "DOCKER_HOST": f"unix://{engine.path}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {key: [1234, 1235] for key in MADE}


@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.usefixtures("engine")
def test_as_an_ordinary_user_everything_is_that_users_own(backend: str) -> None:
    with readable_source() as (environ, home):
        folder = Path(home, "work")
        for path in (folder, folder / "agent"):
            path.mkdir()
            os.chown(path, UID, UID)
        printed = run_program(str(PROGRAM), backend, str(folder), environ=environ, home=home, backend=backend)
    assert json.loads(printed) == {key: [UID, UID] for key in MADE}
