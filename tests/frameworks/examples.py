"""The programs of docs/integrations.md, by the name of their framework's test folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def program(title: str) -> str:
    """Return the program below a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def run(title: str) -> str:
    """Run it in an interpreter of its own; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program(title)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
