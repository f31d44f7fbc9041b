"""A hostile program reports in one line, or it was not carried out: never a pass by accident."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from crabpot.model import Failure, ToolResult
from crabpot.proof.verify.claims import NotCarriedOut
from crabpot.proof.verify.programs import Report, program, read_report


def ran(source: str, **given: object) -> Report:
    text = program(source, {"numbers": {}, **given})
    done = subprocess.run([sys.executable, "-I", "-"], input=text, capture_output=True, text=True, check=False)
    return read_report(
        ToolResult(id="1", success=True, stdout=done.stdout, stderr=done.stderr, exit_code=done.returncode)
    )


def test_what_an_attempt_gives_is_what_was_gained() -> None:
    report = ran('attempt("look", lambda: "a secret")')
    assert report.tried == "look"
    assert report.got == "look: a secret"


def test_an_error_of_the_kernel_is_a_refusal_and_names_it() -> None:
    report = ran('attempt("open it", read, given["path"])', path="/no/such/file")
    assert report.got is None
    assert report.refused == "ENOENT No such file or directory (open it)"


def test_nothing_is_a_refusal_too() -> None:
    assert ran('attempt("list", list)').refused == "nothing there (list)"


def test_a_fact_that_does_not_hold_is_a_gain() -> None:
    report = ran('expect("uid", False, 0); expect("gid", True, 1000)')
    assert report.got == "uid: 0"
    assert report.refused == "1000 (gid)"


def test_many_refusals_are_told_in_few_words() -> None:
    report = ran('for n in range(40): attempt("way %d" % n, lambda: None)')
    assert report.tried.endswith("way 11 and 28 more")
    assert report.refused == "nothing there, 40 times"
    mixed = ran('attempt("look", read, "/no/such"); [attempt("way %d" % n, lambda: None) for n in range(9)]')
    assert mixed.refused == "ENOENT No such file or directory (look); nothing there (way 0, way 1 and 7 more)"


@pytest.mark.parametrize(
    "source",
    [
        "undefined_name",
        'attempt("x", lambda: 1 / 0)',
        'print("chatter"); attempt("x", list)',
        "pass",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "import os; os.kill(os.getpid(), 9)",
    ],
)
def test_a_program_that_does_not_report_was_not_carried_out(source: str) -> None:
    with pytest.raises(NotCarriedOut):
        ran(source)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{}",
        json.dumps({"tried": "x", "got": None}),
        json.dumps({"tried": "x", "got": None, "refused": "y", "held": True}),
        json.dumps({"tried": 7, "got": None, "refused": "y"}),
        json.dumps({"tried": "x", "got": ["y"], "refused": "y"}),
        json.dumps({"tried": "", "got": None, "refused": "y"}),
        json.dumps({"tried": "x", "got": None, "refused": ""}),
    ],
)
def test_a_report_that_is_none_was_not_carried_out(line: str) -> None:
    with pytest.raises(NotCarriedOut):
        read_report(ToolResult(id="1", success=True, stdout=line, exit_code=0))


def test_a_sandbox_that_failed_is_no_refusal() -> None:
    lost = ToolResult(id="1", success=False, error=Failure(code="sandbox_lost", message="gone"))
    with pytest.raises(NotCarriedOut, match="sandbox_lost"):
        read_report(lost)
