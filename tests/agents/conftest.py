"""A place for real agents: a home, a project and a program, outside of /tmp, which some agents refuse."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.agents import PATIENCE_S
from tests.support.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="crabpot-agents-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def folder(place: Path) -> Path:
    """A project that a sandbox may write."""
    made = place / "folder"
    (made / "sub").mkdir(parents=True)
    if os.geteuid() == 0:
        for path in (made, made / "sub"):
            os.chown(path, 61234, 61234)
    return made


@pytest.fixture
def crabpot(place: Path) -> Program:
    (place / "home").mkdir()
    return Program(home=place / "home", patience_s=PATIENCE_S)


@pytest.fixture
def lingering(crabpot: Program) -> Iterator[Program]:
    """A program whose first call leaves a gateway behind, which ends with the test."""
    made = replace(crabpot, more={"CRABPOT_LINGER": "30m"})
    yield made
    made("serve", "stop")


@pytest.fixture
def served(crabpot: Program) -> Iterator[Program]:
    """A program whose gateway OpenClaw's plugin starts, and which ends with the test."""
    assert "CRABPOT_AGENTS" in os.environ, "see make test-agents"
    yield crabpot
    crabpot("serve", "stop")
