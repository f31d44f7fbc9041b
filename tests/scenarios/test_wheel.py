"""The wheel that a release would ship: built here, installed into an empty environment, and used as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crabpot
from tests.support.backends import need

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 600.0


def ran(*command: str | Path, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Wheel:
    """A wheel, and an environment that has it and the packages of requirements.lock, and nothing else."""

    file: Path
    environment: Path

    def install(self) -> None:
        venv.create(self.environment, with_pip=False, symlinks=True)
        self.pip(
            "install", "--no-deps", "--no-compile", "--require-hashes", "-r", str(REPOSITORY / "requirements.lock")
        )
        self.pip("install", "--no-deps", "--no-compile", "--no-index", str(self.file))

    def pip(self, *words: str) -> str:
        """Run the pip of the tests on the environment, which has none."""
        return ran(sys.executable, "-m", "pip", "--python", self.environment / "bin/python", "--quiet", *words)

    def crabpot(self, *words: str) -> str:
        home = self.environment / "home"
        home.mkdir(exist_ok=True)
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "CRABPOT_LINGER": "0"}
        return ran(self.environment / "bin/crabpot", *words, cwd=home, env=environ, start_new_session=True)

    @cached_property
    def files(self) -> list[str]:
        return zipfile.ZipFile(self.file).namelist()


def source_files(folder: Path) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]


@pytest.fixture(scope="module")
def wheel() -> Iterator[Wheel]:
    with tempfile.TemporaryDirectory(prefix="crabpot-wheel-") as folder:
        ran(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, cwd=REPOSITORY)
        made = Wheel(next(Path(folder).glob("*.whl")), Path(folder, "environment"))
        made.install()
        yield made


@pytest.fixture(scope="module")
def bubblewrap() -> None:
    need("bubblewrap")


def test_it_holds_the_package_and_nothing_else(wheel: Wheel) -> None:
    metadata = f"crabpot-{crabpot.__version__}.dist-info/"
    assert sorted(name for name in wheel.files if not name.startswith(metadata)) == sorted(
        source_files(REPOSITORY / "src")
    )
    assert "crabpot/py.typed" in wheel.files


def test_the_lock_has_all_that_it_requires(wheel: Wheel) -> None:
    wheel.pip("check")


def test_its_version_is_that_of_the_source(wheel: Wheel) -> None:
    assert wheel.file.name == f"crabpot-{crabpot.__version__}-py3-none-any.whl"
    assert wheel.crabpot("--version") == f"crabpot {crabpot.__version__}\n"


def test_help_is_shown(wheel: Wheel) -> None:
    assert "usage: crabpot" in wheel.crabpot("--help")


def test_its_types_are_seen_by_those_who_use_it(wheel: Wheel) -> None:
    program = "import crabpot\ndef code(of: crabpot.ToolResult) -> None: reveal_type(of.exit_code)"
    mypy: list[str | Path] = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        wheel.environment / "bin/python",
    ]
    assert "int | None" in ran(*mypy, "--config-file=", "--cache-dir=/dev/null", "-c", program, cwd=wheel.environment)


def test_a_command_runs_in_a_sandbox(wheel: Wheel, bubblewrap: None) -> None:
    assert wheel.crabpot("exec", "true") == ""
    assert wheel.crabpot("exec", "pwd") == "/workspace\n"


def test_the_demo_keeps_every_attack_inside(wheel: Wheel, bubblewrap: None) -> None:
    assert "attacks stayed inside" in wheel.crabpot("demo")
