"""The Python API without an event loop: the same names, and the same types for a type checker."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

import crabpot
import crabpot.sync

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import crabpot.sync

with crabpot.sync.sandbox(limits={"memory": "1g"}) as box:
    box.write("data.txt", "3\\n1\\n2\\n")
    text: str = box.read("data.txt", text=True)
    raw: bytes = box.read("data.txt")
    done = box.exec(["sort", "data.txt"], text=True, timeout=None)
    lines: list[str] = done.stdout.splitlines()
    sizes: list[int] = [entry.size for entry in box.ls()]
    other: crabpot.sync.Box = box.fork()
    code: int | None = other.exec("exit 3").exit_code
"""
WRONG = """
import crabpot.sync

with crabpot.sync.sandbox() as box:
    box.write("data.txt", 3)
    text: str = box.read("data.txt")
    box.exec("ls", timeout_seconds=3)
    box.no_such_method()
"""


@pytest.mark.parametrize("name", ["Session", "Box"])
def test_every_method_has_one_that_waits(name: str) -> None:
    theirs, ours = getattr(crabpot, name), getattr(crabpot.sync, name)
    public = {one for one in dir(theirs) if not one.startswith("_")}
    assert public <= set(dir(ours))
    assert not [one for one in public if inspect.iscoroutinefunction(getattr(ours, one))]


@pytest.mark.slow
def test_a_program_is_checked_by_mypy_strict(tmp_path: Path) -> None:
    for name, text in (("right.py", PROGRAM), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    done = subprocess.run(
        [*command, str(tmp_path / "right.py"), str(tmp_path / "wrong.py")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in errors if "right.py" in line], done.stdout
    # Every line of the block in the wrong one.
    assert {int(line.split(":")[1]) for line in errors} == {5, 6, 7, 8}, done.stdout
