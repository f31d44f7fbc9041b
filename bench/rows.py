"""The figures to hold, taken from what was measured: ours, beside what, and the ratio not to exceed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import Comparison, Curve, Figure, Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALONE = "crabpot grep, without ripgrep"
_DIRECT, _STDIO = "Gateway.call (the Python door)", "MCP over standard input and output"
# What is measured, in which comparison; ours, beside whom; at most this ratio.
_HELD = (
    ("`exec true`, embedded", "exec", "crabpot", "bare spawn", 1.4),
    ("`read` of 4 KiB, embedded", "read", "crabpot", "bare spawn", 0.25),
    ("`exec true`, docker", "exec", "crabpot, docker", "docker CLI", 1 / 40),
    ("`exec true`, kubernetes", "exec", "crabpot, kubernetes", "kubectl", 1 / 50),
    ("cold open to first result, beside docker run", "open", "crabpot", "docker CLI", 1 / 10),
    ("cold open to first result, beside srt true", "open", "crabpot", "srt", 1 / 15),
    ("cold open to first result, beside bare bwrap", "open", "crabpot", "bare bwrap", 3.0),
    ("warm claim to first result", "open", "crabpot, kept ready", "bare spawn", 2.0),
    ("100 sandboxes opened at once", "burst", "crabpot", "bare bwrap python3", 1.2),
    ("`exec true` in a layer, beside rw", "layer", "layer", "rw", 1.1),
    ("fork of a session, to its first result, beside an open", "fork", "fork", "open", 1.5),
    ("MCP server, from nothing to its first answer", "server-start", "in a sandbox", "bare server", 1.8),
    ("call of an MCP server's tool", "server-call", "in a sandbox", "bare server", 2.0),
    ("`crabpot --help`", "commands", "crabpot --help", "python -I -c pass", 4.0),
    ("`crabpot explain`", "commands", "crabpot explain", "python -I -c pass", 9.0),
    ("one-shot `crabpot exec true`", "commands", "crabpot exec true", "srt", 1.0),
    ("one-shot `crabpot exec true`, beside codex sandbox", "commands", "crabpot exec true", "codex", 2.5),
    (
        "MCP start to first tool list, a gateway lingering",
        "commands",
        "crabpot mcp to its first tool list",
        "python -I -c pass",
        6.0,
    ),
    ("`crabpot exec true`, a gateway lingering", "commands", "crabpot exec true, a gateway lingering", "codex", 0.7),
    ("HTTP `exec true`, beside Gateway.call", "doors-exec", "HTTP, Unix socket", _DIRECT, 1.8),
    ("MCP over stdio, `exec true`, beside Gateway.call", "doors-exec", _STDIO, _DIRECT, 2.0),
    ("`grep` over 1,000 files", "search-1000", "crabpot grep", "rg, and one spawn", 1.5),
    ("`glob` over 1,000 files", "search-1000", "crabpot glob", "rg --files, and one spawn", 1.5),
    ("`grep` over 100,000 files", "search-100000", "crabpot grep", "rg, and one spawn", 1.5),
    ("`glob` over 100,000 files", "search-100000", "crabpot glob", "rg --files, and one spawn", 1.5),
    ("`grep` over 1,000 files, without ripgrep", "search-1000", _ALONE, "rg, and one spawn", 5.0),
    ("`grep` over 100,000 files, without ripgrep", "search-100000", _ALONE, "rg, and one spawn", 5.0),
)
# Of a folder with many files, beside an empty one.
_BY_SIZE = {"review": "open under review", "changes": "`changes list`"}
# The part of a run in which a comparison is made, where it is not called the same.
_PARTS = {
    **dict.fromkeys(("exec", "read", "open"), "calls"),
    **dict.fromkeys(("layer", "fork", "changes"), "review"),
    **dict.fromkeys(("search-1000", "search-100000"), "search"),
    **dict.fromkeys(("server-start", "server-call"), "servers"),
    "burst": "openings",
    "doors-exec": "doors",
}
# Those that are made from other than comparisons, by their part.
_OTHERS = {"many": "1,000 alive and idle", "files": "100 MB file in and out", "download": "1 GB through the gateway"}
_MOST_MB = 3.5
_NOTHING = Series(name="", values=(0.0,))


def figures(
    comparisons: Sequence[Comparison], curves: Sequence[Curve], why: Mapping[str, str] | None = None
) -> list[Figure]:
    """Return every row; one whose other side was not measured says so, and why: by part, or by who took no part."""
    found, reasons = {one.id: one for one in comparisons}, why or {}
    made = []
    for what, where, ours, other, at_most in _HELD:
        own, beside = (found[where].find(name) if where in found else None for name in (ours, other))
        absent = ours if own is None else other
        reason = reasons.get(_PARTS.get(where, where)) if where not in found else reasons.get(absent)
        missing = "" if own and beside else f"{absent} was not measured" + (f": {reason}" if reason else "")
        made.append(
            Figure(what=what, ours=own or _NOTHING, other=beside if own else None, at_most=at_most, missing=missing)
        )
    for name, what in _BY_SIZE.items():
        if name in found:
            empty, many = found[name].series
            made.append(Figure(what=f"{what}, {many.name}", ours=many, other=empty, at_most=1.3))
    made += [
        Figure(what=what, ours=_NOTHING, other=None, missing=f"not measured: {reasons[part]}")
        for part, what in _OTHERS.items()
        if part in reasons
    ]
    grown = {one.id: one for one in curves}
    if "memory" in grown:
        made.append(_memory(grown["memory"]))
    return made + [_flat(grown[name]) for name in ("among", "records") if name in grown]


def _memory(curve: Curve) -> Figure:
    count, series = curve.lines["crabpot"][-1]
    limit = Series(name="at most", values=(_MOST_MB,), unit="MB")
    return Figure(what=f"{count:g} alive and idle: memory", ours=series, other=limit, at_most=1.0)


def _flat(curve: Curve) -> Figure:
    (first, few), *_, (last, many) = curve.lines["exec true"]
    return Figure(
        what=f"`exec true`, {last:,.0f} {curve.along}",
        ours=many,
        other=Series(name=f"with {first:,.0f}", values=few.values),
        at_most=1.3 if curve.id == "among" else 1.5,
    )
