"""The page and its plots: what is committed is what the committed results give."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import page, plots
from bench.figures import Comparison, Curve, Report, Series

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generated():
    results = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    return page.files([Report.from_json(one) for one in results])


@pytest.mark.parametrize("name", ["second-machine.json", "endurance.json"])
def test_what_was_measured_in_runs_of_their_own_is_on_the_page(name):
    kept, shown = (json.loads((DOCS / file).read_text(encoding="utf-8")) for file in (name, "benchmarks.json"))
    assert kept
    assert all(report["machine"] in [one["machine"] for one in shown] for report in kept)


def test_the_committed_page_and_plots_are_what_the_committed_results_give(generated):
    assert {name for name, text in generated.items() if (DOCS / name).read_text(encoding="utf-8") != text} == set()


def test_no_plot_is_left_over_from_an_earlier_run(generated):
    assert {f"benchmarks/{file.name}" for file in (DOCS / "benchmarks").iterdir()} == set(generated) - {"benchmarks.md"}


def test_every_plot_is_whole_and_every_picture_of_the_readme_is_there(generated):
    for name, text in generated.items():
        if name.endswith(".svg"):
            assert ET.fromstring(text).tag.endswith("svg")
    shown = [
        part.split(")")[0] for part in (ROOT / "README.md").read_text(encoding="utf-8").split("](docs/benchmarks/")[1:]
    ]
    assert shown, "the readme shows some"
    assert all((DOCS / "benchmarks" / name).exists() for name in shown)


def test_a_peer_that_could_not_take_part_is_named_with_its_reason():
    peers = {"docker CLI": {"absent": "no | engine <here>", "beyond": "runs any image"}}
    text = page.files([Report(machine={"user": "root"}, peers=peers)])["benchmarks.md"]
    assert "| docker CLI | could not take part: no \\| engine &lt;here> | runs any image |" in text


def test_who_took_part_in_a_later_run_alone_is_named_once():
    both, later = ({name: {"version": name, "beyond": "more"} for name in names} for names in ("a", "ab"))
    text = page.files([Report(machine={"user": "root"}, peers=one) for one in (both, later)])["benchmarks.md"]
    assert [text.count(f"| {name} | {name} | more |") for name in "ab"] == [1, 1]


def test_what_a_later_run_measured_alone_is_shown_too_and_nothing_twice():
    def run(*ids):
        sides = (Series(name="one", values=(1.0,)), Series(name="two", values=(2.0,)))
        comparisons = tuple(Comparison(id=name, what=f"About {name}", limit="one", series=sides) for name in ids)
        return Report(machine={"user": "root"}, comparisons=comparisons)

    made = page.files([run("exec"), run("exec", "review")])
    assert set(made) == {"benchmarks.md", "benchmarks/exec.svg", "benchmarks/review.svg"}
    assert [made["benchmarks.md"].count(f"### About {name}") for name in ("exec", "review")] == [1, 1]


def test_a_curve_is_taken_from_the_run_that_went_furthest_and_such_a_run_has_no_table():
    def run(user, *ends):
        points = tuple((end, Series(name="memory", values=(1.0,), unit="MB")) for end in ends)
        return Report(machine={"user": user}, curves=(Curve(id="x", what="X", along="n", lines={"memory": points}),))

    text = page.files([run("root", 0, 20), run("nobody", 0, 10), run("root", 0, 99_000)])["benchmarks.md"]
    assert text.count("### X") == 1
    assert "| 99,000 |" in text
    assert "Figures to hold" not in text


def test_bars_are_in_order_and_names_cannot_break_the_picture():
    names = {"slow <b>&": 0.2, "crabpot": 0.0004, "bare spawn": 0.001}
    series = tuple(Series(name=name, values=(value,)) for name, value in names.items())
    drawn = ET.fromstring(plots.bars(Comparison(id="x", what="x", limit="bare spawn", series=series)))
    texts = [node.text for node in drawn.iter() if node.tag.endswith("text")]
    assert [text for text in texts if text in names] == ["crabpot", "bare spawn", "slow <b>&"]
    widths = [float(node.get("width")) for node in drawn.iter() if node.tag.endswith("rect")]
    assert widths == sorted(widths)
    assert all(width > 0 for width in widths)


def test_a_line_stays_within_the_picture():
    points = tuple(
        (x, Series(name="s", values=(y,), unit="calls/s")) for x, y in ((1, 900.0), (64, 5123.0), (500, 1.0))
    )
    drawn = ET.fromstring(plots.lines(Curve(id="x", what="x", along="callers", lines={"exec": points})))
    places = [(float(node.get("cx")), float(node.get("cy"))) for node in drawn.iter() if node.tag.endswith("circle")]
    assert len(places) == 3
    assert all(0 < x < 760 and 40 < y < 300 for x, y in places)


def drawn_line(*points):
    of = tuple((x, Series(name="s", values=(y,), unit="MB")) for x, y in points)
    lines = {"memory": of, "threads": tuple((x, Series(name="t", values=(2.0,), unit="")) for x, _ in of)}
    drawn = ET.fromstring(plots.lines(Curve(id="x", what="x", along="n", lines=lines)))
    circles = [float(node.get("cx")) for node in drawn.iter() if node.tag.endswith("circle")]
    return circles[: len(of)], [node.text for node in drawn.iter() if node.tag.endswith("text")]


def test_numbers_that_grow_by_factors_stand_by_their_size_and_many_have_few_labels():
    few, texts = drawn_line((0, 1.0), (10, 1.0), (100, 1.0), (1000, 2.0))
    steps = [right - left for left, right in pairwise(few)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert {"memory (MB)", "threads"} < set(texts)
    many, texts = drawn_line(*((1000 * x, 1.0) for x in range(51)))
    steps = [right - left for left, right in pairwise(many)]
    assert steps == pytest.approx([steps[0]] * 50, abs=0.2)
    assert 5 <= len([text for text in texts if text.endswith(",000")]) <= 8
