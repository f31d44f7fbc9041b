"""A spare whose folder is not on this machine is passed on by its note alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.sandboxes import private_folders
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_spare_in_a_pod_is_passed_on_once(tmp_path: Path) -> None:
    spare = make_spec(str(tmp_path), name="spare-1", backend="kubernetes")
    wanted = make_spec(str(tmp_path), name="crabpot-x", backend="kubernetes")
    held = await private_folders.hold_alone(str(tmp_path), spare, "main")
    assert held.pass_on(wanted, "main")
    assert os.path.exists(f"{wanted.workspace}.json")
    assert not os.path.exists(f"{spare.workspace}.json")
    other = await private_folders.hold_alone(str(tmp_path), make_spec(str(tmp_path), name="spare-2"), "main")
    assert not other.pass_on(wanted, "main")
    held.release()
    other.abandon()
