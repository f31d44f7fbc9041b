"""A verification as one HTML page for an auditor: no scripts, nothing loaded, everything escaped."""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING

from crabpot.doors.cli.show import visible
from crabpot.proof.verify.report import machine
from crabpot.proof.verify.threats import ROWS
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabpot.proof.verify.claims import Finding
    from crabpot.proof.verify.report import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --line: #d9dee3; --page: #fff; --raised: #f5f7f9;
  --held: #1a7f37; --degraded: #8a6100; --open: #8a6100; --broken: #c4202d; --error: #c4202d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #9aa4ae; --line: #333b44; --page: #14181c;
  --raised: #1c2228; --held: #4ac26b; --degraded: #d9a72b; --open: #d9a72b; --broken: #ff7b72; --error: #ff7b72; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 74rem;
  margin: 2.5rem auto; padding: 0 1.5rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.4rem 0 .6rem; }
p, dl { color: var(--soft); margin: .4rem 0; } code, td.mono { font-family: ui-monospace, monospace; font-size: .86em; }
.verdict { font-size: 1.15rem; font-weight: 600; margin: 1rem 0; }
.counts { display: flex; gap: .8rem; flex-wrap: wrap; margin: 1.2rem 0; }
.counts div { background: var(--raised); border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem; }
.counts b { display: block; font-size: 1.5rem; line-height: 1.2; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { border-bottom: 1px solid var(--line); padding: .4rem .8rem .4rem 0; vertical-align: top; }
td:first-child { width: 6rem; white-space: nowrap; } td.name { white-space: nowrap; }
td.long { overflow-wrap: anywhere; }
nav ul { columns: 2; padding-left: 1.2rem; margin: .4rem 0; } a { color: inherit; }
.facts td:nth-child(n+4) { min-width: 9rem; overflow-wrap: anywhere; }
td.took { text-align: right; white-space: nowrap; padding-right: 0; color: var(--soft); }
.claim { font-weight: 600; } .details { color: var(--soft); font-size: .88em; }
.held { color: var(--held); } .degraded { color: var(--degraded); } .open { color: var(--open); }
.broken, .error, .violated { color: var(--broken); font-weight: 700; } .enforced { color: var(--held); }
@media (max-width: 640px) { body { margin: 1rem auto; padding: 0 .8rem; } nav ul { columns: 1; }
  table, tbody { display: block; }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .4rem 0; } tr:has(th) { display: none; }
  td, td:first-child, td.name { display: block; width: auto; border: 0; padding: .05rem 0; white-space: normal; }
  td.took { text-align: left; } td.mono { overflow-wrap: anywhere; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --page: #fff; --raised: #fff;
  --held: #1a7f37; --degraded: #8a6100; --open: #8a6100; --broken: #c4202d; --error: #c4202d; }
  body { margin: 0; max-width: none; font-size: 10pt; } nav { display: none; }
  tr { break-inside: avoid; } h2 { break-after: avoid; } }
"""

# What a person must look at comes first.
_WORST_FIRST = ("broken", "violated", "error", "refused", "degraded", "unknown", "open", "held", "enforced")


def text(report: Report) -> str:
    """Return the whole page."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    # The page runs and loads nothing, and the policy enforces that, whatever an attack's answer contains.
    yield (
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    yield f"<title>Crabpot: verification of {_safe(report.session)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield from _head(report)
    parts = [*_parts(report)]
    yield '<nav aria-label="Contents"><h2>Contents</h2>\n<ul>'
    yield from (f'<li><a href="#part-{at}">{title}</a></li>' for at, (title, _) in enumerate(parts))
    yield "</ul></nav>"
    for at, (title, lines) in enumerate(parts):
        yield f'<h2 id="part-{at}">{title}</h2>'
        yield from lines
    yield "</body>\n</html>"


def _parts(report: Report) -> Iterator[tuple[str, Iterable[str]]]:
    """Return the titles and the lines of all that follows the head, what needs a look before what held."""
    if report.lowered:
        yield "Limits that were lowered for the attacks", _lowered(report)
    if report.clauses:
        yield "How this machine keeps each promise", _clauses(report)
    if report.facts:
        yield "What the kernel says of the sandbox", _facts(report)
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault(finding.claim.group, []).append(finding)
    for group, findings in sorted(groups.items(), key=lambda one: min(_rank(finding.state) for finding in one[1])):
        held = sum(finding.state == "held" for finding in findings)
        yield f"{_safe(group.capitalize())} <small>({held} of {len(findings)} held)</small>", _group(findings)
    yield "What has happened to others, and what was tried about it here", _threats(report)


def _rank(state: str) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _head(report: Report) -> Iterator[str]:
    counts = report.counts
    bad = counts["broken"] + counts["error"]
    state, verdict = (
        ("broken", f"{counted(bad, 'claim')} failed") if bad else ("held", "Every claim that is made holds")
    )
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.time))
    yield "<h1>Verification of a sandbox</h1>"
    yield (
        "<p>A sandbox was opened as this session gets it, and hostile programs inside and beside it tried to break "
        "each claim. What came back is the answer of the kernel or of the gateway; an attack that could not be carried "
        "out counts as failed.</p>"
    )
    yield f'<p class="verdict {state}">{verdict}.</p>\n<div class="counts">'
    for name, count in sorted(counts.items(), key=lambda one: _rank(one[0])):
        yield f'<div><b class="{name if count else ""}">{count}</b>{name}</div>'
    yield "</div>\n<table>"
    facts = {
        "session": report.session,
        "host": machine()["host"],
        "configuration": "the defaults" if report.config is None else f"{report.config} (sha256 {report.config_hash})",
        "backend": report.backend,
        "spec": report.spec_hash,
        "when": f"{when}, in {report.seconds:.0f} s",
        "version": f"Crabpot {report.version}",
        "machine": ", ".join(f"{name} {value}" for name, value in machine().items() if name != "host"),
        "digest": report.digest,
    }
    yield from (f'<tr><td>{name}</td><td class="mono long">{_safe(value)}</td></tr>' for name, value in facts.items())
    yield "</table>"


def _lowered(report: Report) -> Iterator[str]:
    yield (
        "<p>An attack that works must do no harm, and a limit is kept by the same means whatever its value. So the "
        "attacks met these limits, which are below the session's own; all others are its own.</p>\n<table>"
    )
    yield "<tr><th>limit</th><th>the session's own</th><th>attacked with</th></tr>"
    for name, own, tried in report.lowered:
        yield f"<tr><td>{_safe(name)}</td><td>{_safe(own)}</td><td>{_safe(tried)}</td></tr>"
    yield "</table>"


def _clauses(report: Report) -> Iterator[str]:
    yield "<table>\n<tr><th>state</th><th>clause</th><th>how</th></tr>"
    for clause in sorted(report.clauses, key=lambda one: _rank(one.state)):
        yield _row(clause.state, f'<td class="name">{_safe(clause.name)}</td><td>{_safe(clause.how)}</td>')
    yield "</table>"


def _facts(report: Report) -> Iterator[str]:
    yield '<table class="facts">'
    yield "<tr><th>state</th><th>clause</th><th>fact</th><th>promised</th><th>found</th></tr>"
    for fact in sorted(report.facts, key=lambda one: _rank(one.state)):
        cells = (fact.clause, fact.what, fact.promised, fact.found)
        yield _row(fact.state, "".join(f'<td class="mono">{_safe(cell)}</td>' for cell in cells))
    yield "</table>"


def _group(findings: list[Finding]) -> Iterator[str]:
    yield "<table>"
    for one in sorted(findings, key=lambda one: _rank(one.state)):
        details = [("why", one.claim.because), ("tried", one.tried), ("came back", one.came_back)]
        details += [("announced", one.degraded)] if one.degraded else []
        lines = "".join(f'<div class="details">{label}: {_safe(what)}</div>' for label, what in details if what)
        claim = f'<div class="claim">{_safe(one.claim.text)}</div>{lines}'
        yield _row(one.state, f'<td>{claim}</td><td class="took">{one.seconds:.2f} s</td>')
    yield "</table>"


def _threats(report: Report) -> Iterator[str]:
    yield "<table>"
    yield "<tr><th>state</th><th>what happened</th><th>claims</th></tr>"
    for key, what in ROWS.items():
        tried = [finding for finding in report.findings if key in finding.claim.threats]
        names = "; ".join(finding.claim.text for finding in tried) or "not tried in this run"
        state = _worst(finding.state for finding in tried)
        yield _row(state, f'<td>{_safe(what)}</td><td class="details">{_safe(names)}</td>')
    yield "</table>"


def _worst(states: Iterable[str]) -> str:
    return min(states, key=_rank, default="")


def _row(state: str, cells: str) -> str:
    return f'<tr><td class="{_safe(state)}">{_safe(state)}</td>{cells}</tr>'


def _safe(value: str) -> str:
    return html.escape(visible(value), quote=True)
