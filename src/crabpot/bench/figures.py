"""The figures to hold: what is measured, against what, and the ratio that must not be passed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Repeated measurements of one thing, in seconds (or another unit that is named)."""

    name: str
    values: tuple[float, ...]
    unit: str = "s"

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def p99(self) -> float:
        """The one that 99 of 100 stay below."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row: a ratio between two series of the same run. `at_most` holds from above, `at_least` from below."""

    what: str
    ours: Series
    other: Series | None
    at_most: float | None = None
    at_least: float | None = None
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours in units of the other."""
        return None if self.other is None or not self.other.median else self.ours.median / self.other.median

    @property
    def holds(self) -> bool | None:
        """Tell whether the row holds; None where there is nothing to compare with, or nothing to hold."""
        if self.ratio is None or self.at_most is self.at_least is None:
            return None
        above = self.at_most is not None and self.ratio > self.at_most
        below = self.at_least is not None and self.ratio < self.at_least
        return not (above or below)

    def hold(self) -> str:
        """Say what is to be held."""
        if self.at_most is self.at_least is None:
            return "no figure set"
        return f"≤ {self.at_most:.4g} ×" if self.at_most is not None else f"≥ {self.at_least or 0:.4g} ×"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All rows of a run, and the machine that it ran on."""

    machine: dict[str, Any]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """Give the raw results."""
        return {
            "machine": self.machine,
            "notes": list(self.notes),
            "figures": [
                {
                    "what": figure.what,
                    "ratio": figure.ratio,
                    "hold": figure.hold(),
                    "holds": figure.holds,
                    "missing": figure.missing,
                    "series": [
                        {"name": s.name, "unit": s.unit, "median": s.median, "p99": s.p99, "values": list(s.values)}
                        for s in (figure.ours, figure.other)
                        if s is not None
                    ],
                }
                for figure in self.figures
            ],
        }


def amount(series: Series) -> str:
    """Show a median in a unit that reads well."""
    value, unit = series.median, series.unit
    if unit == "s":
        return f"{value * 1000:.2f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:.1f} {unit}"


def markdown(report: Report, command: str) -> str:
    """Write the report as the page that docs/benchmarks.md is."""
    facts = "; ".join(f"{name}: {value}" for name, value in report.machine.items())
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{command}`. Ratios of medians within one run; times are this machine's and move with it.",
        "",
        f"Machine: {facts}.",
        "",
        "| what | ours | beside | ratio | hold | |",
        "|---|---|---|---|---|---|",
    ]
    for figure in report.figures:
        beside = figure.missing if figure.other is None else f"{figure.other.name}: {amount(figure.other)}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f} ×"
        unheld = "not measured" if figure.ratio is None else ""
        verdict = {True: "held", False: "**missed**", None: unheld}[figure.holds]
        lines.append(f"| {figure.what} | {amount(figure.ours)} | {beside} | {ratio} | {figure.hold()} | {verdict} |")
    return "\n".join([*lines, "", *report.notes, ""])
