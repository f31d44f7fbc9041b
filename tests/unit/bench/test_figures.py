"""Rows, and results that go to JSON and back."""

from __future__ import annotations

import json

import pytest

from bench import rows
from bench.figures import Comparison, Curve, Figure, Report, Series, shown


def series(name, *values, unit="s"):
    return Series(name=name, values=values, unit=unit)


def test_a_series_gives_the_middle_and_the_one_that_nearly_all_stay_below():
    one = series("x", *range(1, 201))
    assert one.median == 100.5
    assert one.p99 == 199
    assert series("y", 3.0).p99 == 3.0


@pytest.mark.parametrize(
    ("ours", "other", "limits", "holds", "with_margin"),
    [
        (1.0, 1.0, {"at_most": 1.5}, True, True),
        (2.0, 1.0, {"at_most": 1.5}, False, True),
        (2.5, 1.0, {"at_most": 1.5}, False, False),
        (1.0, 2.0, {"at_least": 1 / 3}, True, True),
        (1.0, 4.0, {"at_least": 1 / 3}, False, True),
        (1.0, 9.0, {"at_least": 1 / 3}, False, False),
    ],
)
def test_a_row_holds_or_is_missed_or_is_missed_by_far(ours, other, limits, holds, with_margin):
    row = Figure(what="x", ours=series("a", ours), other=series("b", other), **limits)
    assert row.holds is holds
    assert row.within(1.6) is with_margin


def test_a_row_without_its_other_side_neither_holds_nor_fails():
    row = Figure(what="x", ours=series("a", 1.0), other=None, at_most=1.0, missing="no engine")
    assert row.holds is None
    assert row.within(9) is None


def test_results_come_back_from_json_as_they_were():
    report = Report(
        machine={"cores": "2"},
        peers={"docker CLI": {"absent": "no engine", "beyond": "images"}},
        figures=(Figure(what="x", ours=series("a", 0.001), other=series("b", 0.002), at_most=1.5),),
        comparisons=(Comparison(id="exec", what="exec", limit="b", series=(series("a", 0.25), series("b", 0.5))),),
        curves=(Curve(id="m", what="memory", along="n", lines={"crabpot": ((1, series("s", 4.0, unit="MB")),)}),),
    )
    assert Report.from_json(json.loads(json.dumps(report.as_json()))) == report


def test_every_row_is_there_and_says_what_was_not_measured():
    measured = Comparison(id="exec", what="", series=(series("crabpot", 0.0012), series("bare spawn", 0.001)))
    found = {row.what: row for row in rows.figures([measured], [])}
    assert len(found) == 27
    assert found["`exec true`, embedded"].ratio == pytest.approx(1.2)
    assert found["`exec true`, docker"].missing == "crabpot, docker was not measured"
    assert found["warm claim to first result"].holds is None


def test_a_row_says_why_it_was_not_measured():
    calls = Comparison(id="exec", what="", series=(series("crabpot", 0.0012), series("bare spawn", 0.001)))
    why = {"docker CLI": "no engine", "crabpot, docker": "no image", "doors": "nobody answered", "files": "disk full"}
    found = {row.what: row.missing for row in rows.figures([calls], [], why)}
    assert found["`exec true`, docker"] == "crabpot, docker was not measured: no image"
    assert found["HTTP `exec true`, beside Gateway.call"] == "HTTP, Unix socket was not measured: nobody answered"
    assert found["100 MB file in and out"] == "not measured: disk full"
    assert found["`exec true`, embedded"] == ""


def test_growth_is_judged_from_its_first_point_to_its_last():
    line = tuple((count, series("exec true", took)) for count, took in ((1, 0.001), (100, 0.009), (500, 0.0024)))
    curve = Curve(id="among", what="", along="sandboxes alive", lines={"exec true": line})
    (row,) = [row for row in rows.figures([], [curve]) if "500" in row.what]
    assert row.ratio == pytest.approx(2.4)
    assert row.holds is False


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00021, "s", "210 µs"),
        (0.00123, "s", "1.23 ms"),
        (0.345, "s", "345 ms"),
        (0.9996, "s", "1.00 s"),
        (2.5, "s", "2.50 s"),
        (3.81, "MB", "3.81 MB"),
    ],
)
def test_amounts_read_well(value, unit, text):
    assert shown(value, unit) == text
