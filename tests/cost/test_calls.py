"""What a warm call costs in the gateway and in the runner: counted, so that a busy machine changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.cost.counted_gateway import CALLS
from tests.cost.counting import (
    GATEWAY_PROGRAM,
    INSTRUCTIONS_MARGIN,
    RUNNER_PROGRAM,
    check,
    counted_by_doors,
    counted_in_gateway,
    fewest,
    system_calls_of,
)
from tests.support.backends import need
from tests.unit.runner.driver import MAIN, PYTHON, RunnerProcess

if TYPE_CHECKING:
    from pathlib import Path

# The costs that are held. A change that raises one on purpose writes the new number here.
# With two wake-ups of the gateway's loop. It sleeps once more if the runner does not answer soon.
IN_THE_GATEWAY = {"exec": 2685, "read": 2754, "write": 2718, "ls": 2878}
WAKEUPS, ONE_MORE = 2, 177
# The same with its record, which is waited for here: it is written when no call waits.
RECORDED = {"exec": 4163, "read": 4275, "write": 4277, "ls": 4284}
IN_THE_RUNNER = {"exec": 1960, "read": 1241, "write": 1468, "ls": 1281}
# A `read`, with the gateway's own part of it; by MCP some 900 fewer where the runner answers soon.
BY_DOOR = {"http": 12_552, "mcp": 17_750, "mcp-http": 50_616}
SYSTEM_CALLS = {"exec": 111, "read": 11}
# What a loaded machine adds, or a shell that ignores SIGINT. Of a `read` less than one: what every call does counts whole.
BY_CHANCE = {"exec": 2.6, "read": 0.6}


def test_no_call_takes_more_instructions_or_wakeups_of_the_gateway(open_folder: Path) -> None:
    need("bubblewrap")
    counted = counted_in_gateway(open_folder / "state", openings=1, calls=60)
    for tool, most in IN_THE_GATEWAY.items():
        cheapest = min(counted[tool], key=lambda cost: cost["instructions"])
        fewest_wakeups = min(cost["wakeups"] for cost in counted[tool])
        check(f"{tool}, in wake-ups of the gateway's loop,", fewest_wakeups, WAKEUPS, margin=0)
        instructions = cheapest["instructions"] - ONE_MORE * (cheapest["wakeups"] - WAKEUPS)
        check(f"{tool} in the gateway, in instructions,", instructions, most, margin=INSTRUCTIONS_MARGIN)
        recorded = min(cost["recorded"] for cost in counted[tool])
        check(f"{tool} with its record, in instructions,", recorded, RECORDED[tool], margin=INSTRUCTIONS_MARGIN)


def test_no_door_takes_more_instructions_of_the_gateway(open_folder: Path) -> None:
    need("bubblewrap")
    counted = counted_by_doors(open_folder / "state", calls=40)
    for name, most in BY_DOOR.items():
        check(f"a read by the door {name}, in instructions,", counted[name], most, margin=INSTRUCTIONS_MARGIN)


@pytest.mark.parametrize("tool", CALLS)
def test_no_call_takes_more_instructions_of_the_runner(tool: str, tmp_path: Path) -> None:
    (tmp_path / "four").write_text("x" * 4096, encoding="utf-8")
    few, many = (_in_the_runner(tmp_path, tool, calls) for calls in (5, 15))
    check(f"{tool} in the runner, in instructions,", (many - few) / 10, IN_THE_RUNNER[tool], margin=INSTRUCTIONS_MARGIN)


def _in_the_runner(folder: Path, tool: str, calls: int) -> int:
    counted = folder / "counted"
    start = [PYTHON, "-I", "-S", RUNNER_PROGRAM, str(counted), MAIN]
    with RunnerProcess(start=start, workspace=str(folder), roots=[str(folder)]) as runner:
        for _ in range(calls):
            assert runner.call(tool, CALLS[tool])["success"]
    return int(counted.read_text(encoding="utf-8"))


@pytest.mark.parametrize("tool", SYSTEM_CALLS)
def test_no_call_takes_more_system_calls(tool: str, open_folder: Path) -> None:
    need("bubblewrap")
    program = [sys.executable, GATEWAY_PROGRAM, str(open_folder / "state"), "1"]
    system_calls_of([*program, "0", tool])  # The first of all finds out about the machine.
    # What the shell itself does is this machine's.
    shell = system_calls_of(["sh", "-c", "true"]).total() if tool == "exec" else 0

    def count() -> float:
        few, many = (system_calls_of([*program, str(calls), tool]).total() for calls in (10, 60))
        return (many - few) / 50 - shell

    check(f"{tool}, in system calls,", fewest(count) - BY_CHANCE[tool], SYSTEM_CALLS[tool], margin=0)
