"""What an opening costs: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cost.counting import GATEWAY_PROGRAM, INSTRUCTIONS_MARGIN, check, counted_in_gateway, system_calls_of
from tests.support.backends import need
from tests.support.ordinary_user import UID, interpreter, readable_source

if TYPE_CHECKING:
    from pathlib import Path

# The costs that are held. A change that raises one on purpose writes the new number here.
INSTRUCTIONS, WAKEUPS = 32068, 11
# With the closing, and without those of the interpreter inside. Root drops to another user first.
SYSTEM_CALLS = {"root": 1347, "ordinary": 1283}
MOUNTS = {"root": 54, "ordinary": 58}
PROGRAMS = {"root": 3, "ordinary": 2}


def test_no_opening_takes_more_instructions_or_wakeups_of_the_gateway(open_folder: Path) -> None:
    need("bubblewrap")
    counted_in_gateway(open_folder / "state", openings=1, calls=0)  # The first of all finds out about the machine.
    counted = counted_in_gateway(open_folder / "state", openings=3, calls=0)["open"]
    cheapest = min(cost["instructions"] for cost in counted)
    check("opening, in instructions,", cheapest, INSTRUCTIONS, margin=INSTRUCTIONS_MARGIN)
    check("opening, in wake-ups of the gateway's loop,", min(cost["wakeups"] for cost in counted), WAKEUPS, margin=0)


def test_no_opening_takes_more_system_calls_mounts_or_programs(open_folder: Path) -> None:
    need("bubblewrap")
    who = "root" if os.geteuid() == 0 else "ordinary"
    _check_system_calls(who, [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state")])


def test_nor_does_one_of_an_ordinary_user() -> None:
    need("bubblewrap")
    if os.geteuid() != 0:
        pytest.skip("the test before this one is an ordinary user's already")
    with readable_source() as (environ, home):
        program = [interpreter(), shutil.copy(GATEWAY_PROGRAM, environ["PYTHONPATH"]), f"{home}/state"]
        _check_system_calls("ordinary", program, env=environ, cwd=home, user=UID, group=UID, extra_groups=[])


def _check_system_calls(who: str, program: list[str], **how: Any) -> None:
    # The first of all finds out about the machine.
    _, one, *several = (system_calls_of([*program, str(number), "0", "read"], **how) for number in (1, 1, 5, 5, 5))
    inside = system_calls_of(["/usr/bin/python3", "-I", "-S", "-c", ""]).total()
    fewest = min(several, key=lambda calls: calls.total())
    fewest.subtract(one)
    check(f"opening ({who}), in mounts,", fewest["mount"] / 4, MOUNTS[who], margin=0)
    check(f"opening ({who}), in programs,", fewest["execve"] / 4, PROGRAMS[who], margin=0)
    check(f"opening ({who}), in system calls,", fewest.total() / 4 - inside, SYSTEM_CALLS[who])
