"""What an opening costs: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from bench.machine import bwrap
from tests.cost.counted_gateway import CLAIM
from tests.cost.counting import GATEWAY_PROGRAM, INSTRUCTIONS_MARGIN, check, counted_in_gateway, system_calls_of
from tests.support.backends import need
from tests.support.ordinary_user import UID, interpreter, readable_source
from tests.support.suites import take_over

if TYPE_CHECKING:
    from pathlib import Path

# Debian 12's, and the one of the wheel: what a bwrap does by itself is its version's.
BWRAP_0_8, BWRAP_0_11 = "root, by bubblewrap 0.8.0", "root, by bubblewrap 0.11.0"
# The costs that are held. A change that raises one on purpose writes the new number here.
INSTRUCTIONS, WAKEUPS = 30541, 11
# The same by a spare, which is taken over. It sleeps once more if the runner does not answer soon.
CLAIM_INSTRUCTIONS, CLAIM_WAKEUPS = 4376, 2
# With the closing and a first `read`. By a fork server, whose children start no program; and by bwrap, without what the
# interpreter inside does by itself. Root drops to another user first.
SYSTEM_CALLS = {"root": 589, "ordinary": 529, BWRAP_0_8: 1372, BWRAP_0_11: 1417}
MOUNTS = {"root": 45, "ordinary": 45, BWRAP_0_8: 56, BWRAP_0_11: 57}
PROGRAMS = {"root": 0, "ordinary": 0, BWRAP_0_8: 3, BWRAP_0_11: 3}
SYSTEM_CALLS_MARGIN = 0.015


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
    fewest = {what: min(cost[what] for cost in counted) for what in ("instructions", "wakeups")}
    check(
        "opening by a spare, in instructions,", fewest["instructions"], CLAIM_INSTRUCTIONS, margin=INSTRUCTIONS_MARGIN
    )
    check("opening by a spare, in wake-ups of the loop,", fewest["wakeups"], CLAIM_WAKEUPS, margin=0)


def test_no_opening_takes_more_system_calls_mounts_or_programs(open_folder: Path) -> None:
    need("bubblewrap")
    who = "root" if os.geteuid() == 0 else "ordinary"
    _check_system_calls(who, [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state")])


def test_nor_does_one_by_bwrap(open_folder: Path) -> None:
    need("bubblewrap")
    if os.geteuid() != 0:
        pytest.skip("counted as root alone")
    version = subprocess.run([bwrap(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    if f"root, by {version}" not in SYSTEM_CALLS:
        pytest.skip(f"not counted with {version}")
    take_over(str(open_folder / "state"), images=False, forks=False)
    _check_system_calls(f"root, by {version}", [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state")])


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
    check(
        f"opening ({who}), in system calls,", fewest.total() / 4 - inside, SYSTEM_CALLS[who], margin=SYSTEM_CALLS_MARGIN
    )
