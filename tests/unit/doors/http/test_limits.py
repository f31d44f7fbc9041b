"""How much one principal may ask for."""

from __future__ import annotations

import pytest

from crabpot.doors.http.access.limits import Limits, TooMany


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_bucket_empties_and_fills_again_and_is_nobody_elses():
    clock = Clock()
    limits = Limits(per_s=2, burst=3, now=clock)
    for _ in range(3):
        limits.spend("a")
    with pytest.raises(TooMany) as caught:
        limits.spend("a")
    assert caught.value.after_s == 0.5
    limits.spend("b")
    clock.now += 0.5
    limits.spend("a")
    clock.now += 1000
    for _ in range(3):
        limits.spend("a")
    with pytest.raises(TooMany):
        limits.spend("a")


def test_so_many_are_answered_at_once_and_no_more():
    limits = Limits(at_once=2)
    with limits.running("a"), limits.running("a"):
        with pytest.raises(TooMany, match="at once"), limits.running("a"):
            pass
        with limits.running("b"):
            pass
    with limits.running("a"):
        pass
