"""The bodies of a principal: how much at once, how fast, and how many values, counted as the parser would."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.doors.http.access.bodies import MOST_VALUES, Bodies, Body, TooManyValues, Values
from crabpot.doors.http.access.limits import Pace, TooMany

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\\\,[{}]:\n\u00e9')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a"\\\\,[{')), inner),
)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def values(value):
    """Count what the parser makes objects of, but for the first of each list or object and for keys."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    opened = isinstance(value, dict | list)
    return opened + max(0, len(inner) - 1) + sum(map(values, inner))


@given(ANYTHING, st.integers(1, 9), st.booleans())
def test_values_are_counted_as_they_are_however_the_body_is_cut(value, cut, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    counted = Values()
    for start in range(0, len(text), cut):
        counted.count(text[start : start + cut])
    assert counted.seen == values(value)


def test_a_long_text_is_one_value_whatever_is_in_it():
    body = Body(Bodies(), "a")
    body.take(json.dumps({"content": '[{},"' * MOST_VALUES}).encode())


def test_one_value_too_many_is_refused():
    body = Body(Bodies(), "a")
    body.take(b"[" + b"0," * (MOST_VALUES - 1))
    with pytest.raises(TooManyValues):
        body.take(b",")


def test_what_a_principal_holds_is_bounded_and_given_back():
    bodies = Bodies(held_bytes=10)
    first, second = Body(bodies, "a"), Body(bodies, "a")
    first.take(b"x" * 8)
    with pytest.raises(TooMany):
        second.take(b"x" * 8)
    Body(bodies, "b").take(b"x" * 8)
    first.end()
    second.end()
    Body(bodies, "a").take(b"x" * 10)


def test_who_is_faster_than_its_pace_waits_and_nobody_else():
    clock = Clock()
    pace = Pace(per_s=10, burst=100, now=clock)
    pace.add("a", 100)
    assert pace.wait_s("a") <= 0
    pace.add("a", 50)
    assert pace.wait_s("a") == 5
    assert pace.wait_s("b") <= 0
    clock.now += 5
    assert pace.wait_s("a") == 0
    clock.now += 10**6
    pace.add("a", 101)
    assert pace.wait_s("a") == pytest.approx(0.1)


def test_only_json_has_values():
    Body(Bodies(), "a", is_json=False).take(b"," * 2 * MOST_VALUES)
