"""What a search costs for each file that it only passes by: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cost.counting import INSTRUCTIONS_MARGIN, SEARCH_PROGRAM, check, system_calls_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The costs that are held. A change that raises one on purpose writes the new number here.
INSTRUCTIONS = {"grep": 282, "glob": 26}
# To open, read, find the end and close: the program searches twice.
SYSTEM_CALLS = {"grep": 2 * 4, "glob": 0}
PATTERNS = {"grep": "needle", "glob": "**/*.found"}


@pytest.mark.parametrize("tool", PATTERNS)
def test_no_search_takes_more_instructions_for_a_file(tool: str, tmp_path: Path) -> None:
    def count(program: list[str]) -> int:
        return int(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)

    counted = _by_the_file(tool, tmp_path, count)
    check(f"{tool}, in instructions for each file,", counted, INSTRUCTIONS[tool], margin=INSTRUCTIONS_MARGIN)


@pytest.mark.parametrize("tool", PATTERNS)
def test_nor_does_it_take_more_system_calls(tool: str, tmp_path: Path) -> None:
    counted = _by_the_file(tool, tmp_path, lambda program: system_calls_of(program).total())
    # A folder is listed by so many names at once.
    check(f"{tool}, in system calls for each file,", counted - 0.5, SYSTEM_CALLS[tool], margin=0)


def _by_the_file(tool: str, top: Path, count: Callable[[list[str]], int]) -> float:
    counted = []
    for files in (100, 300):
        folder = top / str(files)
        folder.mkdir()
        (folder / "one.found").write_text("a needle\n", encoding="utf-8")
        for number in range(files):
            (folder / f"{number}.text").write_text("a line\n" * 20, encoding="utf-8")
        program = [sys.executable, SEARCH_PROGRAM, str(folder), tool, PATTERNS[tool]]
        counted.append(count(program))
    return (counted[1] - counted[0]) / 200
