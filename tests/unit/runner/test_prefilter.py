"""Patterns made looser for ripgrep: whatever the pattern matches, the looser one matches too."""

from __future__ import annotations

import re
import time
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
        "{",
        "}",
        "a{",
        "{1",
        "{,",
        "(?#a)",
        "[]a]",
        "[^]a]",
        "[a-]",
        r"[\]\-\b]",
        r"\t",
        r"\.",
        r"\0",
        r"\u00e9",
        "(?>a|ab)",
        "(?P<n>a)",
        "(?i-s:k)",
        "|",
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
    literal, looser = prefilter.derive(pattern, regex.flags)
    raw = line.encode("utf-8", "surrogateescape")
    if regex.search(line):
        assert literal in raw
        if looser is not None:
            # Python's own engine can read it: bytes, and nothing but what both dialects share.
            assert looser.startswith("(?-u)")
            assert re.search(looser[5:].encode(), raw + ending, re.MULTILINE)


def derived(pattern: str) -> tuple[bytes, str | None]:
    return prefilter.derive(pattern, re.compile(pattern).flags)


@pytest.mark.parametrize("pattern", [r"(?a)\w", r"(?a:\S)x", "", "(?=a)", r"a\nb", r"\b"])
def test_what_cannot_be_made_looser_is_searched_without_ripgrep(pattern) -> None:
    assert derived(pattern)[1] is None


@pytest.mark.parametrize(
    "pattern", ["(?x) a b # c", "(?x: a )", r"(a)?(?(1)b|c)", r"\N{DIGIT ONE}", r"\012", r"[\101]", "(a)" * 10 + r"\10"]
)
def test_what_the_reader_does_not_know_is_searched_without_a_prefilter(pattern) -> None:
    assert derived(f"{pattern}xyz") == (b"", None)


def test_a_plain_text_stays_a_plain_text() -> None:
    assert derived("ab")[1] == r"(?-u)\x61\x62"
    assert derived(r"\w+foo\.bar(x|y)")[0] == b"foo.bar"
    assert derived("(?i)foo")[0] == b""
    assert derived("foo|bar")[0] == b""


@pytest.mark.parametrize(
    ("pattern", "literal", "looser"),
    [
        ("a{2}b", b"b", r"(?:\x61){2,}\x62"),
        ("a{,}b", b"b", r"(?:\x61){0,}\x62"),
        ("a{}b{x}c{1", b"a{}b{x}c{1", None),
        ("a(?#not b)+c", b"c", r"(?:\x61){1,}\x63"),
        ("[]a-c-]", b"", r"[\x2d\x5d\x61\x62\x63]"),
        (r"[\x61\-]", b"", r"[\x2d\x61]"),
        (r"foo[.]b\x61r\t", b"foo.bar\t", None),
        ("foo|fop", b"fo", r"\x66\x6f(?:\x6f|\x70)"),
        ("(?P<n>ab)(?P=n)c", b"c", None),
        ("(?:ab)?+c", b"c", r"(?:\x61\x62)?\x63"),
    ],
)
def test_the_language_is_read_as_python_reads_it(pattern, literal, looser) -> None:
    found, expression = derived(pattern)
    assert found == literal
    assert expression is not None
    assert looser is None or expression == f"(?-u){looser}"


def test_a_pattern_of_many_like_branches_is_read_in_no_time() -> None:
    began = time.monotonic()
    assert derived("|".join(["a" * 4000] * 5))[0] == b"a" * 4000
    assert time.monotonic() - began < 5


def test_a_pattern_that_python_only_warns_about_is_refused() -> None:
    from crabpot.runner.core.failure import ToolError

    with warnings.catch_warnings(record=True) as caught, pytest.raises(ToolError, match="escape"):
        Matcher("[[:alpha:]]", ignore_case=False)
    assert caught == []
