"""`crabpot bench` over results of an earlier run: what it says of them, what it writes, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def results(tmp_path):
    """The committed results, with every row as far from its limit as is asked for."""

    def write(factor):
        reports = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
        for row in (row for report in reports for row in report["figures"] if row["other"] is not None):
            limit = row["at_most"] if row["at_most"] is not None else row["at_least"] / factor / factor
            row["other"]["values"], row["ours"]["values"] = [1.0], [limit * factor]
        file = tmp_path / "results.json"
        file.write_text(json.dumps(reports), encoding="utf-8")
        return str(file)

    return write


def test_the_page_and_the_plots_are_written_anew_from_the_results(crabpot, tmp_path):
    plots = tmp_path / "docs" / "benchmarks"
    plots.mkdir(parents=True)
    (plots / "of-an-earlier-page.svg").write_text("<svg/>", encoding="utf-8")
    (plots / "notes.txt").write_text("mine", encoding="utf-8")
    crabpot("bench", "--results", str(DOCS / "benchmarks.json"), "--docs", str(tmp_path / "docs"))
    for file in [DOCS / "benchmarks.md", DOCS / "benchmarks.json", *(DOCS / "benchmarks").iterdir()]:
        assert (tmp_path / "docs" / file.relative_to(DOCS)).read_bytes() == file.read_bytes()
    assert not (plots / "of-an-earlier-page.svg").exists()
    assert (plots / "notes.txt").exists(), "nobody else's file goes"


@pytest.mark.parametrize(("factor", "plain", "guarded"), [(0.9, 0, 0), (1.3, 1, 0), (1.8, 1, 1)])
def test_a_missed_row_fails_and_under_the_guard_only_one_that_is_missed_by_far(
    crabpot, results, factor, plain, guarded
):
    file = results(factor)
    ended = crabpot("bench", "--results", file)
    assert ended.code == plain
    assert ("MISSED" in ended.out) is (plain == 1)
    assert crabpot("bench", "--guard", "--results", file).code == guarded


def test_a_file_that_holds_no_results_is_named(crabpot, tmp_path):
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    ended = crabpot("bench", "--results", str(tmp_path / "x.json"), str(tmp_path / "missing.json"))
    assert ended.code == 2
    assert "missing.json holds no results" in ended.said()
