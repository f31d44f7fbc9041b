"""What an opening costs: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cost.counted_gateway import CLAIM
from tests.cost.counting import GATEWAY_PROGRAM, INSTRUCTIONS_MARGIN, check, counted_in_gateway, system_calls_of
from tests.support.backends import need
from tests.support.ordinary_user import UID, interpreter, readable_source
from tests.support.suites import take_over

if TYPE_CHECKING:
    from pathlib import Path

# The costs that are held. A change that raises one on purpose writes the new number here.
INSTRUCTIONS, WAKEUPS = 31200, 11
# The same by a spare, which is taken over. It sleeps twice at least, and once more if the runner does not answer soon.
CLAIM_INSTRUCTIONS, CLAIM_WAKEUPS = 4690, 3
# With the closing and a first `read`. By a fork server, whose children start no program; and by bwrap, without what the
# interpreter inside does by itself. Root drops to another user first.
SYSTEM_CALLS = {"root": 584, "ordinary": 524, "root, by bwrap": 1347}
MOUNTS = {"root": 45, "ordinary": 45, "root, by bwrap": 56}
PROGRAMS = {"root": 0, "ordinary": 0, "root, by bwrap": 3}


def test_no_opening_takes_more_instructions_or_wakeups_of_the_gateway(open_folder: Path) -> None:
    need("bubblewrap")
    counted_in_gateway(open_folder / "state", openings=1, calls=0)  # The first of all finds out about the machine.
    counted = counted_in_gateway(open_folder / "state", openings=3, calls=0)["open"]
    cheapest = min(cost["instructions"] for cost in counted)
    check("opening, in instructions,", cheapest, INSTRUCTIONS, margin=INSTRUCTIONS_MARGIN)
    check("opening, in wake-ups of the gateway's loop,", min(cost["wakeups"] for cost in counted), WAKEUPS, margin=0)


def test_no_opening_by_a_spare_takes_more_instructions_or_wakeups_of_the_gateway(open_folder: Path) -> None:
    need("bubblewrap")
    counted = counted_in_gateway(open_folder / "state", 10, 0, CLAIM)[CLAIM]
    cheapest = min(counted, key=lambda cost: cost["instructions"])
    check(
        "opening by a spare, in instructions,", cheapest["instructions"], CLAIM_INSTRUCTIONS, margin=INSTRUCTIONS_MARGIN
    )
    check("opening by a spare, in wake-ups of the loop,", cheapest["wakeups"], CLAIM_WAKEUPS, margin=0)


def test_no_opening_takes_more_system_calls_mounts_or_programs(open_folder: Path) -> None:
    need("bubblewrap")
    who = "root" if os.geteuid() == 0 else "ordinary"
    _check_system_calls(who, [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state")])


def test_nor_does_one_by_bwrap(open_folder: Path) -> None:
    need("bubblewrap")
    if os.geteuid() != 0:
        pytest.skip("counted as root alone")
    take_over(str(open_folder / "state"), images=False, forks=False)
    _check_system_calls("root, by bwrap", [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state")])


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
    fewest = min(several, key=lambda calls: calls.total())
    fewest.subtract(one)
    inside = system_calls_of(["/usr/bin/python3", "-I", "-S", "-c", ""]).total() if PROGRAMS[who] else 0
    check(f"opening ({who}), in mounts,", (fewest["mount"] + fewest["move_mount"]) / 4, MOUNTS[who], margin=0)
    check(f"opening ({who}), in programs,", fewest["execve"] / 4, PROGRAMS[who], margin=0)
    check(f"opening ({who}), in system calls,", fewest.total() / 4 - inside, SYSTEM_CALLS[who])
