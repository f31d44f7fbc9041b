"""An apply or an undo that is killed at any moment is completed or taken back, and nothing is lost."""

from __future__ import annotations

import os
import posix
import signal
import sys
import traceback
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pytest

from crabpot.layers.changes.applying import apply, undo
from crabpot.layers.changes.reading import changes
from crabpot.layers.changes.recovery import recover
from tests.support.layers import Project, picture, project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_WORK = """
echo more >> a; rm -r d; mkdir e; echo x > e/g; ln -s a l; chmod 700 sub; rm -r t; echo t > t
"""
# What changes something on the disk; the renames of ours are calls of the C library, seen by their Python function.
_CHANGING = frozenset(
    getattr(posix, name)
    for name in "mkdir rename replace unlink rmdir symlink chmod fchmod chown utime pwrite truncate fsync open".split()
)
_OURS = "crabpot/layers/changes/exchange.py"


def _killed_at(moment: int, work: Callable[[], Any]) -> bool:
    """Do the work in a process that is killed at its Nth change of the disk; return whether it was."""
    child = os.fork()
    if child == 0:
        left = count(1)

        def look(frame: Any, event: str, what: Any) -> None:
            changing = event == "c_call" and what in _CHANGING
            ours = event == "return" and frame.f_code.co_filename.endswith(_OURS) and frame.f_code.co_name == "_rename"
            if (changing or ours) and next(left) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(look)
            work()
        except BaseException:  # noqa: BLE001  nothing may get back into pytest from here
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


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
        killed = _killed_at(moment, lambda: apply(one.layer))
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
        killed = _killed_at(moment, lambda: undo(one.layer))
        recover(one.layer)
        assert _seen(one) in (before, after), moment
        if _seen(one) == before:
            assert not apply(one.layer).left
        assert _seen(one) == after, moment
        if not killed:
            break
