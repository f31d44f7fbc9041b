"""A machine whose commands run in a real guard."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.machines import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def machine() -> Iterator[Any]:
    """Return a machine whose home is not below /tmp, which is private in a guard."""
    with tempfile.TemporaryDirectory(
        prefix="crabpot-test-", dir="/opt" if os.geteuid() == 0 else Path.home()
    ) as folder:
        made = Machine(Path(folder))
        yield made
        made.close()


@pytest.fixture
def home(machine: Any) -> Path:
    """Return the operator's home, with a key in it."""
    (machine.home / ".ssh").mkdir()
    (machine.home / ".ssh" / "id_ed25519").write_text("PRIVATE")
    (machine.home / ".gitconfig").write_text("[user]\n\tname = The Operator\n\temail = op@example.com\n")
    (machine.home / "notes").write_text("plain")
    return machine.home
