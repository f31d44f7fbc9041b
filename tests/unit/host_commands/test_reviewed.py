"""A command of a session under review stays away from the host's folder, or is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands import reviewed
from tests.support.machines import Machine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("argv", [("git", "push"), ("git", "-C", "sub", "fetch"), ("uptime",), ("systemctl", "status")])
def test_what_looks_at_nothing_of_the_folder_may_run(argv: tuple[str, ...]) -> None:
    reviewed.check(argv, confined=True)


@pytest.mark.parametrize("argv", [("git", "status"), ("make",), ("cat", "file"), ("rm", "file"), ("unknown",)])
def test_every_other_command_is_refused_until_a_person_applied(argv: tuple[str, ...]) -> None:
    with pytest.raises(HostRefused, match="apply first: crabpot changes apply"):
        reviewed.check(argv, confined=True)


def test_git_that_is_not_relayed_is_refused() -> None:
    with pytest.raises(HostRefused, match="apply first"):
        reviewed.check(("git", "push"), confined=False)


async def test_a_program_that_needs_no_folder_runs_in_an_empty_one_that_goes_with_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path, workspace="review")
    machine.script("uptime", "#!/bin/sh\n")
    (machine.workspace / "file").write_text("under review")
    plan = await machine.plan("uptime", cwd="sub")
    folder = plan.folder.path
    assert os.listdir(folder) == []
    assert str(machine.workspace) not in [place.path for place in plan.guard.view.writes]
    assert not [place.path for place in plan.guard.view.writes if "/layers/" in place.path]
    machine.close()
    assert not os.path.exists(folder)


async def test_another_program_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path, workspace="review")
    machine.script("tool", "#!/bin/sh\n")
    with pytest.raises(HostRefused, match="apply first"):
        await machine.plan("tool")
