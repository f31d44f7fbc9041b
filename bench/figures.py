"""The results of a run: series, figures to hold, comparisons and curves, as data that goes to JSON and back."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# On a shared machine a figure may be off by this much before it counts as a regression.
MARGIN = 1.6
# What three digits make of it.
_WHOLE_SECOND = 0.9995
_DIGITS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Repeated measurements of one thing, in seconds (or another named unit)."""

    name: str
    values: tuple[float, ...]
    unit: str = "s"

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.values)

    @property
    def p99(self) -> float:
        """Return the 99th percentile."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]

    def as_json(self) -> dict[str, Any]:
        """Return the raw values, and their statistics."""
        rounded = [round(value, _DIGITS) for value in self.values]
        return {"name": self.name, "unit": self.unit, "median": self.median, "p99": self.p99, "values": rounded}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Series:
        """Parse it."""
        return cls(name=given["name"], unit=given["unit"], values=tuple(given["values"]))


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
        """Return our median in units of the other."""
        return None if self.other is None or not self.other.median else self.ours.median / self.other.median

    @property
    def holds(self) -> bool | None:
        """Return whether the row holds; None if there is nothing to compare with."""
        return self.within(1.0)

    def within(self, margin: float) -> bool | None:
        """Return whether it holds, or misses by no more than a margin."""
        if self.ratio is None:
            return None
        above = self.at_most is not None and self.ratio > self.at_most * margin
        below = self.at_least is not None and self.ratio < self.at_least / margin
        return not (above or below)

    def hold(self) -> str:
        """Return what is to be held."""
        return f"≤ {self.at_most:.4g} ×" if self.at_most is not None else f"≥ {self.at_least or 0:.4g} ×"

    def as_json(self) -> dict[str, Any]:
        """Return the row and its raw values."""
        return {
            "what": self.what,
            "ratio": self.ratio,
            "hold": self.hold(),
            "holds": self.holds,
            "at_most": self.at_most,
            "at_least": self.at_least,
            "missing": self.missing,
            "ours": self.ours.as_json(),
            "other": None if self.other is None else self.other.as_json(),
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Figure:
        """Parse it."""
        return cls(
            what=given["what"],
            ours=Series.from_json(given["ours"]),
            other=None if given["other"] is None else Series.from_json(given["other"]),
            at_most=given["at_most"],
            at_least=given["at_least"],
            missing=given["missing"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Several ways to do one thing, measured in turns. Ratios are to the series that `limit` names, if any."""

    id: str
    what: str
    series: tuple[Series, ...]
    limit: str | None = None
    note: str = ""

    def find(self, name: str) -> Series | None:
        """Return the series of that name, if it was measured."""
        return next((one for one in self.series if one.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """Return all series."""
        series = [one.as_json() for one in self.series]
        return {"id": self.id, "what": self.what, "limit": self.limit, "note": self.note, "series": series}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Comparison:
        """Parse it."""
        series = tuple(map(Series.from_json, given["series"]))
        return cls(id=given["id"], what=given["what"], limit=given["limit"], note=given["note"], series=series)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How things change with a number: for each line its points, and at each point a series."""

    id: str
    what: str
    along: str
    lines: dict[str, tuple[tuple[float, Series], ...]]
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return every point."""
        lines = {name: [[x, series.as_json()] for x, series in points] for name, points in self.lines.items()}
        return {"id": self.id, "what": self.what, "along": self.along, "note": self.note, "lines": lines}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Curve:
        """Parse it."""
        lines = {
            name: tuple((x, Series.from_json(series)) for x, series in points)
            for name, points in given["lines"].items()
        }
        return cls(id=given["id"], what=given["what"], along=given["along"], note=given["note"], lines=lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run: the machine, who took part and who could not, and everything that was measured."""

    machine: dict[str, str]
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    curves: tuple[Curve, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the raw results."""
        return {
            "machine": self.machine,
            "peers": self.peers,
            "figures": _all(self.figures),
            "comparisons": _all(self.comparisons),
            "curves": _all(self.curves),
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Report:
        """Parse them."""
        return cls(
            machine=given["machine"],
            peers=given["peers"],
            figures=tuple(map(Figure.from_json, given["figures"])),
            comparisons=tuple(map(Comparison.from_json, given["comparisons"])),
            curves=tuple(map(Curve.from_json, given["curves"])),
        )


def _all(things: Iterable[Figure | Comparison | Curve]) -> list[dict[str, Any]]:
    return [thing.as_json() for thing in things]


def shown(value: float, unit: str) -> str:
    """Format a value in a readable unit."""
    if unit != "s":
        return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"  # noqa: PLR2004
    if value < 0.001:  # noqa: PLR2004
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1000:.3g} ms" if value < _WHOLE_SECOND else f"{value:.2f} s"


def amount(series: Series) -> str:
    """Format a median."""
    return shown(series.median, series.unit)
