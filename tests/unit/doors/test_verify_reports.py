"""The reports of a verification: every answer came from inside a sandbox, and none of it may do anything."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from crabpot.backends.base import Clause
from crabpot.doors.cli.reports import auditors_page, junit
from crabpot.proof.verify.claims import Claim, Finding, NotCarriedOut, Opened, Outcome
from crabpot.proof.verify.judging import Fact
from crabpot.proof.verify.report import Report

EVIL = "<script>alert(1)</script>\x1b[2J\x00\u202e\"'&]]>"


async def tries(_target) -> Outcome:
    """Why <b>somebody</b> would try."""
    raise NotImplementedError


def report(*results: Outcome | Opened | NotCarriedOut, session: str = "agent:main:main") -> Report:
    claims = [Claim(name=f"claim_{n}", group="network", attack=tries, threats=("environment",)) for n in range(9)]
    findings = [Finding(claim=claims[n], result=result, seconds=0.5) for n, result in enumerate(results)]
    clauses = (Clause(name="tmp", state="enforced", how=EVIL), Clause(name="disk", state="degraded", how="in part"))
    return Report(
        session=session,
        backend="bubblewrap",
        spec_hash="0" * 64,
        clauses=clauses,
        findings=tuple(findings),
        facts=(Fact(clause="user", what=EVIL, promised="not 0", found=EVIL, state="violated"),),
        seconds=1.0,
        version="0",
        config=f"/home/{EVIL}.json5",
        config_hash="c0ffee",
        lowered=(("memory", "2g", "256m"),),
        time=0.0,
    )


HELD = Outcome(held=True, tried=EVIL, came_back=EVIL)
BROKEN = Outcome(held=False, tried="t", came_back=EVIL)


def test_nothing_in_the_page_is_more_than_text() -> None:
    text = auditors_page.text(report(HELD, BROKEN, NotCarriedOut(EVIL), session=EVIL))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not set("\x1b\x00\u202e") & set(text)
    assert "<U+001B>" not in text
    assert "&lt;U+001B&gt;" in text


def test_the_page_says_at_the_top_whether_anything_failed() -> None:
    assert "Every claim that is made holds" in auditors_page.text(report(HELD))
    assert "2 claims failed" in auditors_page.text(report(HELD, BROKEN, NotCarriedOut("no python3")))


def test_what_needs_a_look_comes_before_what_held() -> None:
    text = auditors_page.text(report(HELD, BROKEN, Opened(by="somebody")))
    claims = text[text.index("<small>") :]
    assert claims.index("claim 1") < claims.index("claim 2") < claims.index("claim 0")
    assert text.index("disk") < text.index(">tmp<")


def test_the_page_says_on_which_machine_with_which_file_and_which_limits_it_attacked() -> None:
    text = auditors_page.text(report(HELD))
    assert os.uname().nodename in text
    assert "(sha256 c0ffee)" in text
    assert "<td>memory</td><td>2g</td><td>256m</td>" in text
    unlike = replace(report(HELD), lowered=(), config=None)
    assert "lowered" not in auditors_page.text(unlike)
    assert "the defaults" in auditors_page.text(unlike)


def test_every_part_is_in_the_contents() -> None:
    text = auditors_page.text(report(HELD))
    parts = re.findall(r'<h2 id="(part-\d)">', text)
    assert len(parts) == 5
    assert [f'href="#{part}"' in text for part in parts] == [True] * 5


def test_the_xml_can_be_read_whatever_came_back_and_counts_what_failed() -> None:
    root = ET.fromstring(junit.text(report(HELD, BROKEN, NotCarriedOut(EVIL), Opened(by=EVIL))))
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }


def test_the_digest_is_of_the_answers_and_not_of_the_time_they_took() -> None:
    one, other = report(HELD, BROKEN), report(HELD, HELD)
    assert one.digest == report(HELD, BROKEN).digest
    assert one.digest != other.digest


def test_the_summary_says_whether_all_held_and_which_did_not() -> None:
    summary = report(HELD, BROKEN).summary()
    assert (summary["held"], summary["failed"], summary["claims"]["held"]) == (False, ["claim_1"], 1)
    assert report(HELD, Opened(by="x")).summary()["held"]
