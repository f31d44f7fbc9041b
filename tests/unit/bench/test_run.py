"""Which parts a run measures, and what becomes of one that fails."""

from __future__ import annotations

from typing import Any

import pytest

from bench.parts import Run
from bench.run import AT_LENGTH, HELD, BenchOptions
from crabpot.doors.cli import parsers
from crabpot.errors import CrabpotError


def plan(**how: Any) -> BenchOptions:
    def never(*_: Any) -> Any:
        raise CrabpotError("no | gateway\nhere")

    given = {"full": False, "install": False, "progress": lambda _: None, **how}
    return BenchOptions(open_gateway=never, reach=never, environ={}, version="1", cache="/nowhere", **given)


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ({}, HELD),
        ({"full": True}, (*HELD, *AT_LENGTH)),
        ({"full": True, "only": ("figures",)}, HELD),
        ({"only": ("records", "review")}, ("review", "records")),
        ({"only": ("figures", "tools")}, (*HELD, "tools")),
    ],
)
def test_a_run_measures_what_was_asked_for_in_one_order(how: dict[str, Any], parts: tuple[str, ...]) -> None:
    assert plan(**how).parts == parts


def test_the_command_line_knows_every_part_and_each_can_be_measured() -> None:
    assert ("figures", *HELD, *AT_LENGTH) == parsers._PARTS
    assert all(callable(getattr(Run, part)) for part in (*HELD, *AT_LENGTH))


async def test_a_part_that_fails_says_why_and_takes_no_other_with_it() -> None:
    told: list[str] = []
    one = Run(plan=plan(progress=told.append))
    await one.measure("files")
    await one.measure("openings")
    assert one.why == {"files": "no | gateway here", "openings": "no | gateway here"}
    assert told == [f"{part} could not be measured: no | gateway here" for part in ("files", "openings")]
