"""An apply or an undo that is killed at any moment is completed or taken back, and nothing is lost."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pytest

from crabpot.layers.changes.applying import apply, undo
from crabpot.layers.changes.reading import changes
from crabpot.layers.changes.recovery import recover
from tests.support.killing import killed_at
from tests.support.layers import Project, picture, project

if TYPE_CHECKING:
    from pathlib import Path

_WORK = """
echo more >> a; rm -r d; mkdir e; echo x > e/g; ln -s a l; chmod 700 sub; rm -r t; echo t > t
"""


def _project(place: Path, mechanism: Literal["overlay", "copy"]) -> Project:
    one = project(place, mechanism, a="a\n", d__1="1", sub__s="s", t__u="u")
    one.agent(_WORK)
    return one


def _seen(one: Project) -> dict[str, Any]:
    return {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()}


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_an_apply_killed_at_any_step_is_completed_or_taken_back(
    tmp_path: Path, mechanism: Literal["overlay", "copy"]
) -> None:
    one = _project(tmp_path, mechanism)
    before, listed = _seen(one), {found.path for found in changes(one.layer)}
    assert not apply(one.layer).left
    after = _seen(one)
    undo(one.layer)
    assert _seen(one) == before
    ends = set()
    for moment in count(1):
        inodes = {path: facts[2] for path, facts in picture(one.folder).items()}
        killed = killed_at(moment, lambda: apply(one.layer))
        recover(one.layer)
        ends.add("completed" if _seen(one) == after else "taken back")
        assert not list(one.folder.glob(".crabpot-*")), moment
        if _seen(one) == after:
            undo(one.layer)
        else:
            assert {path: facts[2] for path, facts in picture(one.folder).items()} == inodes, moment
        assert _seen(one) == before, moment
        assert {found.path for found in changes(one.layer)} == listed, moment
        if not killed:
            break
    assert ends == {"completed", "taken back"}


def test_an_undo_killed_at_any_step_is_completed_or_taken_back(tmp_path: Path) -> None:
    one = _project(tmp_path, "overlay")
    before = _seen(one)
    apply(one.layer)
    after = _seen(one)
    for moment in count(1):
        killed = killed_at(moment, lambda: undo(one.layer))
        recover(one.layer)
        assert _seen(one) in (before, after), moment
        if _seen(one) == before:
            assert not apply(one.layer).left
        assert _seen(one) == after, moment
        if not killed:
            break
