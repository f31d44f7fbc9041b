"""A state folder, and an open audit log in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.audit.store import AuditLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def log(state: str) -> Iterator[AuditLog]:
    made = AuditLog(state)
    made.open()
    yield made
    made.close()
