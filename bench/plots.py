"""Plots as SVG text, readable on light and on dark pages: bars on a logarithmic scale, and lines. Pure."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from bench.figures import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.figures import Comparison, Curve

_WIDTH, _BAR, _LEFT, _RIGHT, _TOP = 760, 26, 250, 90, 58
_HEIGHT, _MARGIN, _LABELS = 352, 64, 8
# Distinct for most kinds of colour vision, and visible on white and on near black.
_COLOURS = ("#d1495b", "#2e86ab", "#6a994e", "#b07d2b", "#7b5ea7")
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}.s{fill:#57606a;font-size:12px}"
    ".g{stroke:#8c959f;stroke-opacity:.35}.o{fill:#2e86ab}.p{fill:#8c959f}.l{fill:#6a994e}"
    "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9ba6b2}}"
)


def bars(comparison: Comparison) -> str:
    """Draw the medians, fastest first, on a logarithmic scale; a thin line reaches to the p99."""
    ordered = sorted(comparison.series, key=lambda one: one.median)
    low = 10 ** math.floor(math.log10(min(one.median for one in ordered) * 0.999))
    high = max(one.p99 for one in ordered) * 1.05
    height = _TOP + _BAR * len(ordered) + 34

    def across(value: float) -> float:
        span = math.log10(high / low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(max(value, low) / low) / span

    parts = [_title(comparison.what), '<text class="s" x="12" y="42">the median; the line reaches to the p99</text>']
    for tick in _decades(low, high):
        x = across(tick)
        parts.append(f'<path class="g" d="M{x:.1f} {_TOP - 6}V{height - 24}"/>')
        parts.append(
            f'<text class="s" text-anchor="middle" x="{x:.1f}" y="{height - 8}">{_tick(tick, ordered[0].unit)}</text>'
        )
    for row, one in enumerate(ordered):
        y = _TOP + row * _BAR
        kind = "o" if one.name.startswith("crabpot") else "l" if one.name == comparison.limit else "p"
        end = across(one.median)
        parts += [
            f'<text text-anchor="end" x="{_LEFT - 8}" y="{y + 14}">{escape(one.name)}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y + 2}" width="{end - _LEFT:.1f}" height="{_BAR - 9}" rx="2"/>',
            f'<path class="g" d="M{end:.1f} {y + 10}H{across(one.p99):.1f}" style="stroke-opacity:.9"/>',
            f'<text class="s" x="{across(one.p99) + 6:.1f}" y="{y + 14}">{shown(one.median, one.unit)}</text>',
        ]
    return _svg(height, parts)


def lines(curve: Curve) -> str:
    """Draw medians along a number. A few numbers, which grow by factors, get a logarithmic axis."""
    xs = sorted({x for points in curve.lines.values() for x, _ in points})
    values = [series.median for points in curve.lines.values() for _, series in points]
    units = {name: points[0][1].unit for name, points in curve.lines.items()}
    unit = next(iter(units.values()))
    # Zero stands a factor of ten below the next.
    least = min(filter(None, xs), default=1.0) / 10
    places = [math.log10(x or least) for x in xs] if len(xs) <= _LABELS else xs
    top = _round_up(max(values) * 1.08)
    right = _WIDTH - 36

    def across(x: float) -> float:
        return _MARGIN + (right - _MARGIN) * (places[xs.index(x)] - places[0]) / ((places[-1] - places[0]) or 1)

    def down(value: float) -> float:
        return _HEIGHT - 56 - (_HEIGHT - 56 - _TOP) * value / top

    parts = [_title(curve.what)]
    for step in range(5):
        value = top * step / 4
        parts.append(f'<path class="g" d="M{_MARGIN} {down(value):.1f}H{right}"/>')
        parts.append(
            f'<text class="s" text-anchor="end" x="{_MARGIN - 6}" y="{down(value) + 4:.1f}">{_tick(value, unit)}</text>'
        )
    parts += [_label(across(x), _HEIGHT - 38, f"{x:,.0f}") for x in xs[:: math.ceil(len(xs) / _LABELS)]]
    parts.append(_label((_MARGIN + right) / 2, _HEIGHT - 20, curve.along))
    for number, (name, points) in enumerate(curve.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dots = [(across(x), down(series.median)) for x, series in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in dots)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in dots]
        left = _MARGIN + number * (right - _MARGIN) / len(curve.lines)
        parts.append(f'<rect x="{left:.1f}" y="{_HEIGHT - 13}" width="10" height="10" rx="2" fill="{colour}"/>')
        told = f"{name} ({units[name]})" if units[name] and len(set(units.values())) > 1 else name
        parts.append(f'<text class="s" x="{left + 15:.1f}" y="{_HEIGHT - 4}">{escape(told)}</text>')
    return _svg(_HEIGHT, parts)


def over_time(what: str, points: Sequence[tuple[float, float]], marked: Sequence[tuple[float, float, str]]) -> str:
    """Draw a value over seconds, with intervals marked and named."""
    right, last = _WIDTH - 36, points[-1][0]
    top = _round_up(max(value for _, value in points) * 1.08)

    def across(seconds: float) -> float:
        return _MARGIN + (right - _MARGIN) * seconds / last

    def down(value: float) -> float:
        return _HEIGHT - 56 - (_HEIGHT - 56 - _TOP) * value / top

    parts = [_title(what)]
    for began, ended, name in marked:
        parts.append(
            f'<rect x="{across(began):.1f}" y="{_TOP}" width="{across(ended) - across(began):.1f}" '
            f'height="{_HEIGHT - 56 - _TOP}" fill="{_COLOURS[0]}" fill-opacity=".12"/>'
        )
        parts.append(_label((across(began) + across(ended)) / 2, _TOP + 16, name))
    for step in range(5):
        value = top * step / 4
        parts.append(f'<path class="g" d="M{_MARGIN} {down(value):.1f}H{right}"/>')
        parts.append(
            f'<text class="s" text-anchor="end" x="{_MARGIN - 6}" y="{down(value) + 4:.1f}">{value:,.4g}</text>'
        )
    parts += [_label(across(last * step / 6), _HEIGHT - 38, f"{last * step / 6:.0f}") for step in range(7)]
    parts.append(_label((_MARGIN + right) / 2, _HEIGHT - 20, "seconds"))
    path = "L".join(f"{across(at):.1f} {down(value):.1f}" for at, value in points)
    parts.append(f'<path d="M{path}" fill="none" stroke="{_COLOURS[1]}" stroke-width="2"/>')
    return _svg(_HEIGHT, parts)


def _svg(height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:g}" role="img"><style>{_STYLE}</style>'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _title(text: str) -> str:
    plain = escape(text.replace("`", ""))
    return f'<title>{plain}</title><text class="t" x="12" y="24">{plain}</text>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text class="s" text-anchor="middle" x="{x:.1f}" y="{y:g}">{escape(text)}</text>'


def _decades(low: float, high: float) -> Iterable[float]:
    first = math.floor(math.log10(low) + 0.5)
    return [10.0**power for power in range(first, math.floor(math.log10(high)) + 1)]


def _tick(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"  # noqa: PLR2004
    if value == 0:
        return "0"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value)
