"""The engine of the real tests: the one that DOCKER_HOST names, started by scripts/docker-engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import crabpot
from crabpot.backends.docker import facts, image
from crabpot.backends.docker.engine import Engine, EngineError
from crabpot.settings import Docker

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(crabpot.__file__).parents[2]


def skip_or_fail(reason: str) -> None:
    """Skip on a laptop; fail where $CRABPOT_REQUIRE_BACKENDS names docker."""
    if "docker" in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "").replace(",", " ").split():
        pytest.fail(f"docker is required here and does not work: {reason}", pytrace=False)
    pytest.skip(f"docker: {reason}")


async def _look(engine: Engine) -> str:
    try:
        await facts.find_out(engine)
        found = await image.find(engine, Docker().image)
    except EngineError as error:
        return str(error)
    return found if isinstance(found, str) else ""


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Give an engine that has the image of the tests."""
    host = os.environ.get("DOCKER_HOST", "")
    if not host.startswith("unix:///"):
        skip_or_fail("DOCKER_HOST names no local engine: scripts/docker-engine start, then scripts/test-image")
    made = Engine(host.removeprefix("unix://"))
    if reason := asyncio.run(_look(made)):
        skip_or_fail(reason)
    return made


@pytest.fixture
def second_engine(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give an engine that a test may kill and restart, with the image of the first."""
    if os.geteuid() != 0:
        pytest.skip("starting an engine needs root")
    folder = tmp_path_factory.mktemp("engine")
    script = str(ROOT / "scripts/docker-engine")

    def control(command: str) -> None:
        subprocess.run([script, command, str(folder)], check=True, capture_output=True, timeout=60)

    control("start")
    try:
        second = Engine(str(folder / "docker.sock"))
        image = str(ROOT / "scripts/test-image")
        environ = {**os.environ, "DOCKER_HOST": f"unix://{second.path}"}
        subprocess.run([image], check=True, capture_output=True, timeout=240, env=environ)
        yield second, control
    finally:
        control("stop")
