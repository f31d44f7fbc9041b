"""What an agent changes under a running command so that it is led out of the folder is seen, and nothing else is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.elevation import shape
from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "a" / "b").mkdir(parents=True)
    (made / "old").symlink_to("/usr")
    return made


def changed(tree: Path, *moves: tuple[str, str]) -> None:
    before = shape.look([str(tree)])
    for source, target in moves:
        os.rename(tree / source, tree / target)
    shape.check(before, shape.look([str(tree)]))


def test_ordinary_work_is_not_minded(tree: Path) -> None:
    before = shape.look([str(tree)])
    (tree / "a" / "file").write_text("x")
    (tree / "a" / "new" / "er").mkdir(parents=True)
    (tree / "inward").symlink_to("a/b")
    (tree / "old").unlink()
    (tree / "a" / "b").rename(tree / "a" / "new" / "b")
    shape.check(before, shape.look([str(tree)]))


@pytest.mark.parametrize("target", ["/etc", "../x", "nowhere/../../x", "a/../..", "inward/../../x"])
def test_a_new_link_that_leads_out_is_refused(tree: Path, target: str) -> None:
    (tree / "inward").symlink_to("a")
    before = shape.look([str(tree)])
    (tree / "a" / "b" / "l").symlink_to(f"{'' if target.startswith('/') else '../../'}{target}")
    with pytest.raises(HostRefused, match="became a link"):
        shape.check(before, shape.look([str(tree)]))


def test_a_link_that_was_there_is_refused_in_another_place(tree: Path) -> None:
    with pytest.raises(HostRefused, match="became a link"):
        changed(tree, ("a", "c"), ("old", "a"))


def test_a_link_that_is_led_out_by_another_is_refused(tree: Path) -> None:
    (tree / "inward").symlink_to("a/b")
    with pytest.raises(HostRefused, match="became a link"):
        changed(tree, ("a/b", "c"), ("old", "a/b"))


def test_a_folder_that_moves_up_is_refused_since_what_is_above_it_is_another(tree: Path) -> None:
    with pytest.raises(HostRefused, match="moved up"):
        changed(tree, ("a/b", "b"))


def test_what_is_not_there_has_no_shape(tmp_path: Path) -> None:
    assert not shape.look([str(tmp_path / "none")]).links
