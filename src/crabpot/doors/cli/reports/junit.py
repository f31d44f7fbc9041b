"""A verification as JUnit XML: one suite for each group, one case for each claim."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from crabpot.doors.cli.show import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.proof.verify.claims import Finding
    from crabpot.proof.verify.report import Report

_TAGS = {"broken": "failure", "error": "error", "degraded": "skipped", "open": "skipped"}


def text(report: Report) -> str:
    """Return the whole file."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="crabpot verify" time="{report.seconds:.3f}">',
    ]
    for group in dict.fromkeys(finding.claim.group for finding in report.findings):
        lines += _suite(group, [finding for finding in report.findings if finding.claim.group == group])
    return "\n".join([*lines, "</testsuites>", ""])


def _suite(group: str, findings: list[Finding]) -> Iterator[str]:
    count = {tag: sum(_TAGS.get(one.state) == tag for one in findings) for tag in ("failure", "error", "skipped")}
    seconds = sum(one.seconds for one in findings)
    yield (
        f'  <testsuite name={quoteattr(group)} tests="{len(findings)}" failures="{count["failure"]}" '
        f'errors="{count["error"]}" skipped="{count["skipped"]}" time="{seconds:.3f}">'
    )
    for one in findings:
        yield f'    <testcase classname={_attribute(group)} name={_attribute(one.claim.text)} time="{one.seconds:.3f}">'
        if one.state in _TAGS:
            why = one.degraded if one.state == "degraded" else one.came_back
            yield f"      <{_TAGS[one.state]} message={_attribute(why or '')}/>"
        yield f"      <system-out>{escape(visible(f'tried: {one.tried}; came back: {one.came_back}'))}</system-out>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _attribute(value: str) -> str:
    # XML allows no control characters, escaped or not: they are shown by number.
    return quoteattr(visible(value))
