"""What a search costs for each file that it only passes by: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cost.counting import INSTRUCTIONS_MARGIN, SEARCH_PROGRAM, check

if TYPE_CHECKING:
    from pathlib import Path

# The costs that are held. A change that raises one on purpose writes the new number here.
BY_THE_FILE = {"grep": 282, "glob": 26}
PATTERNS = {"grep": "needle", "glob": "**/*.found"}


@pytest.mark.parametrize("tool", BY_THE_FILE)
def test_no_search_takes_more_instructions_for_a_file(tool: str, tmp_path: Path) -> None:
    counted = []
    for files in (100, 300):
        folder = tmp_path / str(files)
        folder.mkdir()
        (folder / "one.found").write_text("a needle\n", encoding="utf-8")
        for number in range(files):
            (folder / f"{number}.text").write_text("a line\n" * 20, encoding="utf-8")
        program = [sys.executable, SEARCH_PROGRAM, str(folder), tool, PATTERNS[tool]]
        counted.append(int(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout))
    by_the_file = (counted[1] - counted[0]) / 200
    check(f"{tool}, in instructions for each file,", by_the_file, BY_THE_FILE[tool], margin=INSTRUCTIONS_MARGIN)
