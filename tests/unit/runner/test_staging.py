"""Several files change together: all of them, or, after a failure half-way, none."""

from __future__ import annotations

import os
import stat

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools
from crabpot.runner.files.staging import Staging
from crabpot.runner.files.target import Target


@pytest.fixture
def ctx(tmp_path):
    context = file_tools.Context(str(tmp_path), ())
    yield context
    context.close()


@pytest.fixture
def stage(ctx):
    """Stages changes by name: new content, or None for a removal; returns what commits them."""
    staging = Staging()
    targets: list[Target] = []

    def stage(*changes: tuple[str, bytes | None]) -> Staging:
        for name, content in changes:
            target = Target(ctx, name)
            targets.append(target)
            if content is None:
                staging.remove(target)
            else:
                staging.put(target, content, target.previous)
        return staging

    yield stage
    staging.close()
    for target in targets:
        target.close()


def snapshot(folder) -> dict[str, tuple[int, int, str]]:
    states = {path.name: (path.stat(), path.read_text()) for path in folder.iterdir()}
    return {name: (state.st_ino, stat.S_IMODE(state.st_mode), text) for name, (state, text) in states.items()}


def test_nothing_shows_before_commit_and_everything_after(stage, tmp_path) -> None:
    (tmp_path / "updated").write_text("old")
    (tmp_path / "removed").write_text("old")
    os.chmod(tmp_path / "updated", 0o640)
    staging = stage(("updated", b"new"), ("removed", None), ("added", b"new"))
    assert (tmp_path / "updated").read_text() == "old"
    assert sorted(name for name in os.listdir(tmp_path) if not name.startswith(".")) == ["removed", "updated"]
    staging.commit()
    staging.close()
    assert sorted(os.listdir(tmp_path)) == ["added", "updated"]
    assert (tmp_path / "updated").read_text() == "new"
    assert stat.S_IMODE(os.stat(tmp_path / "updated").st_mode) == 0o640


def test_a_failure_half_way_undoes_what_was_done(stage, tmp_path) -> None:
    """The second of two new files of one name fails when everything before it is done already."""
    for name in ("updated", "removed"):
        (tmp_path / name).write_text("old")
    os.chmod(tmp_path / "removed", 0o600)
    before = snapshot(tmp_path)
    staging = stage(("updated", b"new"), ("removed", None), ("added", b"new"), ("twice", b"one"), ("twice", b"two"))
    with pytest.raises(ToolError) as caught:
        staging.commit()
    staging.close()
    assert caught.value.code == "exists"
    assert snapshot(tmp_path) == before


def test_a_version_that_cannot_take_its_place_leaves_the_old_one_and_nothing_else(stage, tmp_path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    before = snapshot(tmp_path)
    staging = stage(("a", b"new"))
    (hidden,) = tmp_path.glob(".crabpot-*")
    stage(("b", b"new"))
    for path in tmp_path.glob(".crabpot-*"):
        if path != hidden:
            path.unlink()
    with pytest.raises(ToolError) as caught:
        staging.commit()
    staging.close()
    assert caught.value.code == "not_found"
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("change", ["rewritten", "removed", "appeared"])
def test_what_changed_since_it_was_planned_is_a_conflict(change, stage, tmp_path) -> None:
    if change != "appeared":
        (tmp_path / "f").write_text("a")
    staging = stage(("f", b"new"), ("g", b"new"))
    if change == "removed":
        (tmp_path / "f").unlink()
    else:
        (tmp_path / "f").write_text("else")
    before = {name: text for name, (_, _, text) in snapshot(tmp_path).items() if not name.startswith(".")}
    with pytest.raises(ToolError) as caught:
        staging.commit()
    staging.close()
    assert caught.value.code == "conflict"
    assert {name: text for name, (_, _, text) in snapshot(tmp_path).items()} == before
