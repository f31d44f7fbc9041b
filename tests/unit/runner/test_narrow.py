"""Patterns made looser for ripgrep: whatever the pattern matches, the looser one matches too."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.search import prefilter
from crabpot.runner.search.lines import Matcher

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "A",
        "é",
        "É",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\d",
        r"\D",
        r"\b",
        r"\B",
        "^",
        "$",
        "_",
        " ",
        "[a-zé]",
        r"[^\w]",
        r"[^\W\d]",
        r"[\S_]",
        "(?=a)",
        "(?!b)",
        "(?<=a)",
        "(?<!a)",
        "k",
        "s",
        "i",
        "K",
        "\u0131",
        "\u017f",
        "\u212a",
        r"\Z",
        r"\A",
        "[^\\x00-\\x7f]",
        "(?i:b)",
        "(?-i:b)",
        r"\x00",
        r"\n",
        "ß",
        "[k-s]",
        "(?s:.)",
        r"(?:\x1c)",
        "[İ]",
    ]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,3}", "*?", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
        | inner.map(lambda one: f"({one})")
        | inner.map(lambda one: rf"({one})\1" if "(" not in one else one)
        | inner.map(lambda one: rf"({one})?(?(1)a|b)" if "(" not in one else one)
    ),
    max_leaves=6,
)
LINES = st.text(alphabet="aAbBéÉkKsSiI\u0130\u0131\u017f\u212a_ \t09ßẞ\x1c\x85\u2028🦀\udcff\udc80x", max_size=8)


@settings(max_examples=1500, deadline=None)
@given(
    pattern=PATTERNS,
    line=LINES,
    flags=st.sampled_from([0, re.IGNORECASE, re.ASCII, re.IGNORECASE | re.ASCII]),
    ending=st.sampled_from([b"", b"\r"]),
)
def test_what_the_pattern_matches_the_looser_one_matches_too(pattern, line, flags, ending) -> None:
    try:
        regex = re.compile(pattern, flags)
    except re.error:
        return
    tree = prefilter.parse(pattern, regex.flags)
    looser = prefilter.widen(tree)
    raw = line.encode("utf-8", "surrogateescape")
    if regex.search(line):
        assert prefilter.required_literal(tree) in raw
        if looser is not None:
            # Python's own engine can read it: bytes, and nothing but what both dialects share.
            assert looser.startswith("(?-u)")
            assert re.search(looser[5:].encode(), raw + ending, re.MULTILINE)


@pytest.mark.parametrize("pattern", [r"(?a)\w", r"(?a:\S)x", "", "(?=a)", r"a\nb", r"\b"])
def test_what_cannot_be_made_looser_is_searched_without_ripgrep(pattern) -> None:
    assert prefilter.widen(prefilter.parse(pattern, 0)) is None


def test_a_plain_text_stays_a_plain_text() -> None:
    assert prefilter.widen(prefilter.parse("ab", 0)) == r"(?-u)\x61\x62"
    assert prefilter.required_literal(prefilter.parse(r"\w+foo\.bar(x|y)", 0)) == b"foo.bar"
    assert prefilter.required_literal(prefilter.parse("(?i)foo", 0)) == b""
    assert prefilter.required_literal(prefilter.parse("foo|bar", 0)) == b""


def test_a_pattern_that_python_only_warns_about_is_refused() -> None:
    from crabpot.runner.core.failure import ToolError

    with warnings.catch_warnings(record=True) as caught, pytest.raises(ToolError, match="escape"):
        Matcher("[[:alpha:]]", ignore_case=False)
    assert caught == []
