"""The command line, a program whose sessions run on the host, and the docker client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import engine_host, skip_or_fail
from tests.support.docker_client import Docker
from tests.support.pane import Pane
from tests.support.program import REPOSITORY, Program
from tests.support.suites import take_over

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def placed(crabpot: Program) -> Program:
    """A program whose sessions run on the host, through the real runner: what is tested is the way there and back."""
    crabpot.configure('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    crabpot.workspace.mkdir()
    return crabpot


@pytest.fixture
def crabpot(unexamined: Program) -> Program:
    """The program on a machine that it has examined before: that takes longer than what most tests are about."""
    take_over(str(unexamined.state))
    return unexamined


@pytest.fixture
def unexamined(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program in an empty home, before its first call."""
    # Not below the test's own folder, whose long name leaves no room for a socket's.
    return Program(home=tmp_path_factory.mktemp("home"))


@pytest.fixture
def pane(crabpot: Program, tmp_path: Path) -> Iterator[Pane]:
    """A terminal of its own."""
    made = Pane(crabpot, tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def seeds() -> Path:
    return REPOSITORY / "tests/seeds"


@pytest.fixture
def docker() -> Iterator[Docker]:
    """Skip on a machine without an engine and the sandbox image; fail where $CRABPOT_REQUIRE_BACKENDS names docker."""
    made = Docker(host=engine_host(), containers=[])
    said = made("image", "inspect", "crabpot-sandbox:latest")
    if said.returncode != 0:
        skip_or_fail("docker", said.stderr)
    yield made
    for name in made.containers:
        volumes = made("inspect", name, "--format", "{{range .Mounts}}{{.Name}} {{end}}").stdout.split()
        made("rm", "--force", "--volumes", name)
        if volumes:
            made("volume", "rm", *volumes)
