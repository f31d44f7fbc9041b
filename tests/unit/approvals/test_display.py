"""What a person is shown is what a shell would read as the very same words, with nothing hidden in it."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.approvals.display import as_bytes, displayed, line, shown
from crabpot.decide.commands import is_deceptive

WORDS = st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4)


@pytest.mark.parametrize(
    "word",
    [
        "pu\u0455h",  # a Cyrillic letter among Latin ones
        "\u0440\u0430\u0441",  # a word of Cyrillic look-alikes alone
        "\u03bf\u03bd",  # Greek look-alikes alone
        "\uff47\uff49\uff54",  # full width
        "g\u0131t",  # dotless
        "\u0261it",  # script g
        "a\u2215b",  # a division slash
        "\u2010force",  # a hyphen that is no hyphen
        "a\u202eb",  # bidirectional override
        "a\u200bb",  # zero width
        "a\u0301",  # a mark of its own
        "\u05d0\u05d1",  # reads from the right
        "a\x1b[2Jb",  # an escape sequence
        "a\nb",
        "a\u00a0b",
        "\u0660",  # a foreign digit
        "\U0001d4d0",  # a mathematical letter
        "\U000e0041",  # a tag
    ],
)
def test_what_hides_moves_or_imitates_is_shown_by_its_number(word):
    told = shown([word])
    assert told.startswith("$'")
    hidden = [char for char in word if not char.isascii() or not char.isprintable()]
    assert not any(char in told for char in hidden), told
    assert not any(char in line(word) for char in hidden)


@pytest.mark.parametrize(
    "word", ["\u4fee\u590d\u4e86", "исправлено", "größer", "café", "\u3053\u3093\u306b\u3061\u306f"]
)
def test_an_honest_word_of_any_script_stays_readable(word):
    assert word in shown([word])
    assert as_bytes([word]).isascii()


@given(WORDS)
def test_bash_reads_both_forms_as_the_very_same_words(words):
    for text in (shown(words), as_bytes(words)):
        script = f"printf '%s\\0' {text}"
        read = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
        assert read.stdout.decode("utf-8").split("\0")[:-1] == words


@given(WORDS)
def test_nothing_deceptive_is_ever_shown(words):
    assert not any(is_deceptive(char) for char in shown(words))
    assert as_bytes(words).isascii()
    assert as_bytes(words).isprintable()


def test_bytes_that_are_no_text_are_shown_as_bytes():
    assert shown(["a\udcffb"]) == as_bytes(["a\udcffb"]) == "$'a\\xffb'"


def test_what_looks_like_our_marking_is_not_taken_for_it():
    assert shown(["\\u202e"]) == "'\\u202e'"
    assert shown(["\\u202e\u202e"]) == "$'\\\\u202e\\u202e'"
    assert line("\\u202e") != line("\u202e") == "\\u202e"


def test_a_word_is_judged_by_itself_so_that_honest_ones_stay_readable():
    assert line("echo привет m\u0430in") == "echo привет m\\u0430in"
    assert line("a  b ") == "a  b "


@given(st.text(), st.text())
def test_two_different_texts_are_never_shown_alike(one, other):
    assert (line(one) == line(other)) == (one == other)


def test_data_of_any_shape_is_shown_text_by_text():
    given_ = {"m\u0430in": ["m\u0430in", ("m\u0430in", 1, None)], "plain": {"on": True, "at": 0.5}}
    shown_ = {"m\\u0430in": ["m\\u0430in", ["m\\u0430in", 1, None]], "plain": {"on": True, "at": 0.5}}
    assert displayed(given_) == shown_


def test_an_arrow_on_its_own_is_shown_and_one_within_a_name_is_not() -> None:
    assert line("main → refs/heads/main") == "main → refs/heads/main"
    assert line("main→x") == "main\\u2192x"
