"""A command's name becomes a program only in folders that nobody but root and the gateway's user can write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.trusted import find, path_of
from crabpot.settings import TRUSTED_PATH, AgentSettings

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def program(folder: Path, name: str = "tool") -> Path:
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    made = folder / name
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    return made


def test_the_first_folder_of_the_path_that_has_the_name_gives_the_program(tmp_path: Path) -> None:
    first, second = program(tmp_path / "one"), program(tmp_path / "two")
    assert find("tool", f"{tmp_path}/none:{first.parent}:{second.parent}", ()).path == str(first)


def test_a_link_is_followed_to_the_file_that_runs(tmp_path: Path) -> None:
    real = program(tmp_path / "real", "tool-1.0")
    (tmp_path / "bin").mkdir(mode=0o755)
    (tmp_path / "bin" / "tool").symlink_to(real)
    assert find("tool", str(tmp_path / "bin"), ()).path == str(real)


def test_without_a_setting_the_path_is_the_systems_own_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(program(tmp_path / "evil", "ls").parent))
    path = path_of(AgentSettings(id="main"))
    assert path == TRUSTED_PATH
    assert find("ls", path, ()).path == os.path.realpath("/usr/bin/ls")


@pytest.mark.parametrize("name", ["", "/usr/bin/ls", "../ls", "no-such-program", "ls\0"])
def test_what_is_no_plain_name_of_a_program_is_not_found(name: str) -> None:
    with pytest.raises(HostRefused) as refused:
        find(name, TRUSTED_PATH, ())
    assert refused.value.code == "not_found"


@pytest.mark.parametrize("path", ["", ".", "bin", ":", "bin:."])
def test_an_empty_or_relative_entry_never_means_the_working_folder(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path)
    program(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HostRefused, match="not on the trusted path"):
        find("tool", path, ())


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path, mode: int) -> None:
    made = program(tmp_path / "bin")
    made.parent.chmod(mode)
    with pytest.raises(HostRefused, match="can be written by others"):
        find("tool", str(made.parent), ())


def test_nor_is_one_below_such_a_folder_or_a_file_that_others_can_write(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    made = program(tmp_path / "open" / "bin")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(HostRefused, match="open can be written by others"):
        find("tool", str(made.parent), ())
    written = program(tmp_path / "bin")
    written.chmod(0o777)
    with pytest.raises(HostRefused, match="bin/tool can be written by others"):
        find("tool", str(written.parent), ())


def test_nor_what_a_sandbox_may_write_nor_a_link_into_it(tmp_path: Path) -> None:
    planted = program(tmp_path / "ws")
    (tmp_path / "bin").mkdir(mode=0o755)
    (tmp_path / "bin" / "tool").symlink_to(planted)
    for folder in ("ws", "bin"):
        with pytest.raises(HostRefused, match="which a sandbox may write"):
            find("tool", str(tmp_path / folder), (str(tmp_path / "ws"),))


async def test_a_plan_distrusts_every_folder_that_any_agent_may_write(machine: Any) -> None:
    program(machine.workspace, "tool")
    machine.agent = machine.settled(str(machine.workspace))
    with pytest.raises(HostRefused, match="which a sandbox may write"):
        await machine.plan("tool")
