"""Which call of a story a change is told with."""

from __future__ import annotations

from typing import Any

import pytest

from crabpot.host_commands.review.replaying import _call_at


def call(number: int, began: float, ended: float) -> dict[str, Any]:
    return {"number": number, "time": ended, "duration_ms": (ended - began) * 1000}


ONE_SOON_AFTER_THE_OTHER = [call(1, 10.0, 10.1), call(2, 10.12, 10.2)]


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (10.05, 1),
        (10.099, 1),
        (10.13, 2),
        # The stamp of a coarse clock, or a call that was recorded late.
        (10.115, 2),
        (9.97, 1),
        # In the background.
        (10.4, 2),
    ],
)
def test_a_change_is_told_with_the_call_in_whose_time_it_was_made(at: float, number: int) -> None:
    found = _call_at(at, ONE_SOON_AFTER_THE_OTHER)
    assert found is not None
    assert found["number"] == number


def test_what_changed_before_every_call_is_nobodys() -> None:
    assert _call_at(9.0, ONE_SOON_AFTER_THE_OTHER) is None
