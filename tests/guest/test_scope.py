"""What an ordinary user's own systemd shows of a sandbox."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from tests.guest.place import group_of, sandbox_of

if TYPE_CHECKING:
    from collections.abc import Callable


async def test_the_journal_and_the_list_of_units_show_a_description_and_no_command_line(
    opened: Callable[..., Any],
) -> None:
    async with opened() as gateway:
        scope = group_of(await sandbox_of(gateway)).name
        shown = said("systemctl", "--user", "show", "--property=Description", scope)
        assert shown.startswith("Description=Crabpot's sandbox crabpot-")
    journal = said("journalctl", "--user", "--no-pager", "-n", "500")
    assert "Crabpot's sandbox" in journal
    assert "--ro-bind" not in journal


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
