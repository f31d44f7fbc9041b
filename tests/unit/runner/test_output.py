"""Claims about what is kept of a command's output."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from crabpot.runner.exec.output import BothEnds


@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(2, 200))
def test_both_ends_are_kept_and_the_cut_is_counted(pieces, limit):
    kept, whole = BothEnds(limit), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    rest = kept.rest()
    if len(whole) <= limit // 2 * 2:
        assert rest == whole
        assert not kept.truncated
        return
    assert kept.truncated
    marks = list(re.finditer(rb"\n\[crabpot: (\d+) bytes cut\]\n", rest))
    assert any(
        len(whole) == mark.start() + int(mark[1]) + len(rest) - mark.end()
        and whole.startswith(rest[: mark.start()])
        and whole.endswith(rest[mark.end() :])
        for mark in marks
    )
    assert len(rest) <= limit + 40


@given(st.text(alphabet="aé€😀", min_size=60, max_size=200), st.integers(20, 60))
def test_a_cut_never_splits_a_character(text, limit):
    kept = BothEnds(limit)
    for byte in text.encode():
        kept.add(bytes([byte]))
    kept.rest().decode("utf-8", "strict")


def test_output_that_is_not_text_is_kept_as_it_is():
    kept = BothEnds(8)
    kept.add(b"\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89")
    assert kept.rest() == b"\x80\x81\x82\x83\n[crabpot: 2 bytes cut]\n\x86\x87\x88\x89"


def test_live_output_is_handed_on_at_once_and_the_end_comes_last():
    seen: list[bytes] = []
    kept = BothEnds(8, live=seen.append)
    kept.add(b"ab")
    assert seen == [b"ab"]
    kept.add(b"cdefgh")
    kept.add(b"ijkl")
    assert b"".join(seen) == b"abcd"
    assert kept.rest() == b"\n[crabpot: 4 bytes cut]\nijkl"


def test_without_a_limit_everything_is_handed_on():
    seen: list[bytes] = []
    kept = BothEnds(None, live=seen.append)
    for _ in range(100):
        kept.add(b"x" * 1000)
    assert len(b"".join(seen)) == 100_000
    assert kept.rest() == b""


def test_what_was_taken_is_not_given_again():
    kept = BothEnds(4)
    kept.add(b"abcdef")
    assert kept.take() == (b"ab\n[crabpot: 2 bytes cut]\nef", True)
    kept.add(b"g")
    assert kept.take() == (b"g", False)
