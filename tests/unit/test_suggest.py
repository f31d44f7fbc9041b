"""The "did you mean" of every error."""

from __future__ import annotations

import pytest

from crabpot.suggest import closest


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
