"""The mark that openings leave while they are under way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap.leftovers import Mark
from crabpot.backends.linux import owner

if TYPE_CHECKING:
    from pathlib import Path


def test_openings_at_a_time_share_one_mark_which_goes_with_the_last(tmp_path: Path) -> None:
    mark = Mark(str(tmp_path))
    names = {mark.begin() for _ in range(3)}
    assert set(os.listdir(tmp_path)) == names
    assert len(names) == 1
    assert owner.is_alive(*names)
    mark.end()
    mark.end()
    assert set(os.listdir(tmp_path)) == names
    mark.end()
    assert os.listdir(tmp_path) == []


def test_the_next_opening_has_a_mark_of_its_own(tmp_path: Path) -> None:
    mark = Mark(str(tmp_path))
    first = mark.begin()
    mark.end()
    assert mark.begin() != first
    assert os.listdir(tmp_path) != [first]


def test_a_folder_that_cannot_be_written_counts_no_opening(tmp_path: Path) -> None:
    mark = Mark(str(tmp_path / "missing"))
    for _ in range(2):
        try:
            mark.begin()
        except FileNotFoundError:
            (tmp_path / "missing").mkdir()
    mark.end()
    assert os.listdir(tmp_path / "missing") == []
