"""A folder that sandboxes of every backend can reach."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that the user of a sandbox can reach, and that nobody else writes."""
    made = Path(tempfile.mkdtemp(prefix="crabpot-hosts-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)
