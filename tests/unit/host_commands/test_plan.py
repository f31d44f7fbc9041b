"""What runs on the host is what was shown: the words, the program, the folder and a clean environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.plan import check

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


async def test_a_plan_names_the_program_the_folder_and_nothing_of_the_gateways_environment_but_what_is_listed(
    machine: Any,
) -> None:
    (machine.workspace / "sub").mkdir()
    made = machine.script("tool", "#!/bin/sh\n")
    plan = await machine.plan("tool", "a b", cwd="sub")
    assert plan.argv == ("tool", "a b")
    assert plan.binary.path == str(made)
    assert plan.folder.path == str(machine.workspace / "sub")
    assert plan.folder.inside == "/workspace/sub"
    assert dict(plan.env) == {
        "HOME": "/home/x",
        "USER": "x",
        "LANG": "C.UTF-8",
        "TOKEN": "t",
        "PATH": f"{machine.programs}:/usr/bin:/bin",
    }


async def test_a_plan_whose_program_was_replaced_is_refused(machine: Any) -> None:
    made = machine.script("tool", "#!/bin/sh\necho good\n")
    plan = await machine.plan("tool")
    await check(plan)
    machine.script("other", "#!/bin/sh\necho evil\n").replace(made)
    with pytest.raises(HostRefused, match="replaced after it was shown") as refused:
        await check(plan)
    assert refused.value.code == "conflict"


async def test_a_program_written_over_in_place_with_its_times_put_back_is_refused(machine: Any) -> None:
    made = machine.script("tool", "#!/bin/sh\necho good\n")
    plan = await machine.plan("tool")
    before = made.stat()
    with made.open("r+") as file:
        file.write("#!/bin/sh\necho evil\n")
    os.utime(made, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(HostRefused, match="replaced"):
        await check(plan)


async def test_a_plan_whose_folder_was_swapped_is_refused(machine: Any, tmp_path: Path) -> None:
    machine.script("tool", "#!/bin/sh\n")
    (machine.workspace / "sub").mkdir()
    plan = await machine.plan("tool", cwd="sub")
    (machine.workspace / "sub").rename(machine.workspace / "gone")
    (tmp_path / "private").mkdir()
    (machine.workspace / "sub").symlink_to(tmp_path / "private")
    with pytest.raises(HostRefused, match="replaced after it was shown"):
        await check(plan)


@pytest.mark.parametrize("argv", [(), ("tool\0",), ("tool", "a\0b")])
async def test_words_that_no_program_can_be_given_are_refused(machine: Any, argv: tuple[str, ...]) -> None:
    with pytest.raises(HostRefused) as refused:
        await machine.plan(*argv)
    assert refused.value.code == "invalid_arguments"
