"""The tour shows everything live, and says what stands in the way where there is no sandbox."""

from __future__ import annotations

import os
import subprocess
import tempfile
from argparse import Namespace
from typing import TYPE_CHECKING

import pytest

from crabpot.doors.cli.commands.demo import demo
from crabpot.doors.cli.frame import Frame
from crabpot.proof.verify.catalogue import chosen
from tests.support.backends import need
from tests.support.ordinary_user import UID, interpreter, readable_source

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def embedded() -> None:
    need("bubblewrap")


def test_the_tour_is_whole_and_leaves_nothing(embedded: None, capsys, tmp_path: Path, monkeypatch) -> None:
    tmp_path.chmod(0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = demo(Frame(config=None, state=None), Namespace())
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert "2 3 5 7 11 13 17 19 23 29" in shown
    assert "listening on port 8000" in shown
    assert "browser is denied" in shown
    assert "no operator is connected" in shown
    assert shown.count("\n  held ") == 13
    assert "\x1b" not in shown
    assert list(tmp_path.iterdir()) == []


def test_every_attack_of_the_tour_exists() -> None:
    from crabpot.doors.cli.commands import demo as module

    assert len(chosen(module._ATTACKS)) == len(module._ATTACKS) >= 12


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody whom no sandbox runs as")
def test_a_machine_without_a_sandbox_gets_advice_and_runs_nothing() -> None:
    # The group root is one that no sandbox runs as.
    with readable_source() as (environ, home):
        program = "import sys; from crabpot.doors.cli.commands.demo import demo; sys.exit(demo(None, None))"
        done = subprocess.run(
            [interpreter(), "-c", program],
            env=environ,
            cwd=home,
            user=UID,
            group=0,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert "group is root" in done.stdout
    assert "An agent at work" not in done.stdout
