"""Folders that somebody else could change are not used."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot import app
from crabpot.errors import CrabpotError
from crabpot.state import ownership

if TYPE_CHECKING:
    from pathlib import Path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_and_what_is_missing_above_it_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ownership.take(str(tmp_path / "a" / "b" / "c"))
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.mark.parametrize("wide", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_refused_with_the_command_that_mends_it(tmp_path: Path, wide: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(wide)
    with pytest.raises(CrabpotError, match="chmod go-w"):
        ownership.take(str(folder))


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("", encoding="utf-8")
    with pytest.raises(CrabpotError, match="choose another"):
        ownership.take(str(tmp_path / "state"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_is_refused_so_that_its_links_lead_nowhere(tmp_path: Path) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir()
    (state / "audit.db").symlink_to(victim)
    os.chown(state, 12345, 12345)
    with pytest.raises(CrabpotError, match="belongs to user 12345"):
        app.start(config=None, state=str(state), environ=os.environ).gateway("{}")
    assert not victim.exists()
