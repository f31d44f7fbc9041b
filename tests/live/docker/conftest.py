"""The engine of the real tests: the one that DOCKER_HOST names, started by scripts/docker-engine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import crabpot
from crabpot.backends.docker import facts, image
from crabpot.backends.docker.engine import Engine, EngineError
from crabpot.settings import Docker
from tests.support.backends import engine_host, required, skip_or_fail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(crabpot.__file__).parents[2]


async def _look(engine: Engine) -> str:
    try:
        await facts.find_out(engine)
        found = await image.find(engine, Docker().image)
    except EngineError as error:
        return str(error)
    return found if isinstance(found, str) else ""


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return an engine that has the image of the tests."""
    made = Engine(engine_host().removeprefix("unix://"))
    if reason := asyncio.run(_look(made)):
        skip_or_fail("docker", reason)
    return made


@contextmanager
def _engine_of_its_own(*options: str) -> Iterator[tuple[Engine, Callable[[str], None]]]:
    """Start an engine that a test may kill and restart, with the image of the tests; give what starts and stops it."""
    if os.geteuid() != 0:
        pytest.skip("starting an engine needs root")
    script = str(ROOT / "scripts/docker-engine")

    def control(command: str) -> None:
        subprocess.run([script, command, folder, *options], check=True, capture_output=True, timeout=60)

    # Not pytest's folder, which users that are mapped could not get through, and which would be kept.
    with tempfile.TemporaryDirectory(prefix="crabpot-engine-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        control("start")
        try:
            made = Engine(f"{folder}/docker.sock")
            image = str(ROOT / "scripts/test-image")
            environ = {**os.environ, "DOCKER_HOST": f"unix://{made.path}"}
            subprocess.run([image], check=True, capture_output=True, timeout=240, env=environ)
            yield made, control
        finally:
            control("stop")


@pytest.fixture(scope="session")
def second_engine(engine: Engine) -> Iterator[Any]:
    """Return an engine that a test may kill and restart."""
    with _engine_of_its_own() as made:
        yield made


@pytest.fixture
def remapped_engine(engine: Engine) -> Iterator[Engine]:
    """Return an engine whose containers have a user namespace; it adds a user to this machine, so only where required."""
    if not required("docker"):
        pytest.skip("an engine with userns-remap adds the user dockremap to the machine")
    with _engine_of_its_own("--userns-remap=default") as (made, _):
        yield made
