"""The program of docs/python.md runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.backends import need

PAGE = Path(__file__).parents[4] / "docs" / "python.md"


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch) -> None:
    need("bubblewrap")
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path))
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "0 1\n2\n3\n['numbers.txt']\n"
