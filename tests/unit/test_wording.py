"""The wording that messages share."""

from __future__ import annotations

import pytest

from crabpot.wording import closest, counted, one_of


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mdoe", "mode"),
        ("MODE", "mode"),
        ("requireaproval", "requireApproval"),
        ("require_approval", "requireApproval"),
    ],
)
def test_a_near_name_is_suggested_as_it_is_written(word: str, meant: str) -> None:
    assert closest(word, ["mode", "scope", "requireApproval"]) == f'; did you mean "{meant}"?'


@pytest.mark.parametrize("word", ["", "zzz", "x" * 10_000])
def test_nothing_is_suggested_when_nothing_is_near(word: str) -> None:
    assert closest(word, ["mode", "scope"]) == ""
    assert closest("mode", []) == ""


@pytest.mark.parametrize(("number", "said"), [(0, "0 warnings"), (1, "1 warning"), (2, "2 warnings")])
def test_one_of_something_is_not_called_many(number: int, said: str) -> None:
    assert counted(number, "warning") == said


def test_names_are_listed_where_none_is_close():
    assert one_of(["mode", "scope"]) == "; use one of mode, scope"
    assert one_of([]) == ""
