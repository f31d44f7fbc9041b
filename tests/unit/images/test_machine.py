"""Room is looked for before an image is made, not found wanting in the middle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.images import machine
from crabpot.images.recipe import Recipe
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Recipe(groups=(), extra=(), user=User(uid=1, gid=1))
HUGE = Recipe(groups=(), extra=("tmux",) * 10**7, user=User(uid=1, gid=1))


def test_what_no_machine_has_is_told_with_figures(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet" / "made"
    memory, disk = machine.problems(HUGE, {str(folder): 1.0})
    assert memory.startswith("memory: ")
    assert disk.startswith("disk: ")
    assert str(folder) in disk


def test_what_is_there_is_measured(tmp_path: Path) -> None:
    assert (machine.memory_available() or 0) > 2**24
    assert machine.disk_free(str(tmp_path / "x")) == os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize


def test_a_small_image_fits_here(tmp_path: Path) -> None:
    assert list(machine.problems(SMALL, {"/var/tmp": 0.0})) == []
