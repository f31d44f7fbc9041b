"""What each program imports to start: every module is a file to find, read and run before the first word is heard."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crabpot
from tests.cost.counting import check, compiled_by, imports_told, modules_of, telling_imports
from tests.support.backends import need
from tests.unit.runner.driver import MAIN, PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

# The costs that are held: modules beyond those of a bare interpreter. A change that raises one on purpose writes the
# new number here.
COMMANDS = {"--help": 65, "explain": 190, "call ls": 344}
THIN_CLIENT, GATEWAY, LIBRARY, RUNNER = 23, 595, 2, 29
# Source text that a start compiles: each method of a standard dataclass is one, and takes longer than a small module.
COMPILED = {"--help": 17, "explain": 98}
_PROGRAM = [sys.executable, "-I", "-S", str(Path(crabpot.__file__).with_name("__main__.py"))]


@pytest.fixture
def environ(open_folder: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(open_folder), "CRABPOT_LINGER": "0"}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_imports_more(command: str, environ: dict[str, str]) -> None:
    need("bubblewrap")
    for _ in range(2):  # The first of all finds out about the machine.
        imported = modules_of([*_PROGRAM, *command.split()], environ)
    check(f"`crabpot {command}`, in modules,", len(imported), COMMANDS[command], margin=0.02)


@pytest.mark.parametrize("command", COMPILED)
def test_no_command_compiles_more(command: str, environ: dict[str, str]) -> None:
    need("bubblewrap")
    for _ in range(2):  # The first of all finds out about the machine.
        compiled = compiled_by([*_PROGRAM, *command.split()], environ)
    check(f"`crabpot {command}`, in texts compiled,", compiled, COMPILED[command])


def test_neither_gateway_nor_thin_client_imports_more(environ: dict[str, str], tmp_path: Path) -> None:
    need("bubblewrap")
    modules_of([*_PROGRAM, "exec", "true"], environ)
    with _serving(environ, tmp_path / "told"):
        client = modules_of([*_PROGRAM, "exec", "true"], environ)
    gateway = imports_told((tmp_path / "told").read_text(encoding="utf-8"))
    check("the thin client, in modules,", len(client), THIN_CLIENT, margin=0)
    check("`crabpot serve` with a first call, in modules,", len(gateway), GATEWAY, margin=0.02)


@contextmanager
def _serving(environ: dict[str, str], told: Path) -> Iterator[None]:
    with (
        told.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            telling_imports([*_PROGRAM, "serve"]), env=environ, stdout=subprocess.PIPE, stderr=file
        ) as served,
    ):
        try:
            assert served.stdout is not None
            assert b"serves on" in served.stdout.readline()
            yield
        finally:
            served.terminate()


def test_the_library_imports_no_more_before_it_is_used() -> None:
    bare = modules_of([sys.executable, "-c", ""])
    library = modules_of([sys.executable, "-c", "import crabpot"]) - bare
    check("`import crabpot`, in modules,", len(library), LIBRARY, margin=0)


def test_the_runner_imports_no_more() -> None:
    check("the runner, in modules,", len(modules_of([PYTHON, "-I", "-S", MAIN])), RUNNER, margin=0)
