"""One simple command, read as POSIX says; whatever a shell would do beyond splitting words is refused."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.decide.commands import NotSimple, is_deceptive, parse

ACCEPTED = [
    ("git push", ["git", "push"]),
    ("  git   push  ", ["git", "push"]),
    ("git push 'a b'", ["git", "push", "a b"]),
    ('git push "a b"', ["git", "push", "a b"]),
    ("git push a\\ b", ["git", "push", "a b"]),
    ("git push ''", ["git", "push", ""]),
    ('git push ""', ["git", "push", ""]),
    ("git push a''b\"\"c", ["git", "push", "abc"]),
    ("git push '$HOME' '`id`' '*'", ["git", "push", "$HOME", "`id`", "*"]),
    ('git push "\\$HOME \\` \\" \\\\ \\n"', ["git", "push", '$HOME ` " \\ \\n']),
    ('git push "*?[~{;|&<>()#"', ["git", "push", "*?[~{;|&<>()#"]),
    ("git push \\$HOME \\* \\~ \\; \\# \\{", ["git", "push", "$HOME", "*", "~", ";", "#", "{"]),
    ("git push '\\'", ["git", "push", "\\"]),
    ("git push a#b ''#c", ["git", "push", "a#b", "#c"]),
    ("git push a=b --x=y", ["git", "push", "a=b", "--x=y"]),
    ("git push } ] ! ^ % @ + , . : -", ["git", "push", *"}]!^%@+,.:-"]),
    ("git push if then done !", ["git", "push", "if", "then", "done", "!"]),
    ("git push \u00e9 \u4f60 \U0001f600", ["git", "push", "\u00e9", "\u4f60", "\U0001f600"]),
    ("'git' push", ["git", "push"]),
]


@pytest.mark.parametrize(("text", "words"), ACCEPTED)
def test_ordinary_quoting_is_understood(text: str, words: list[str]) -> None:
    assert list(parse(text).argv) == words


@pytest.mark.parametrize(
    "text", ["'git' push", '"git" push', "g''it push", "\\git push", "gi\\t push", "''git push", 'git"" push']
)
def test_a_first_word_with_any_quoting_is_known_as_such(text: str) -> None:
    assert parse(text).argv == ("git", "push")
    assert not parse(text).plain_name
    assert parse("git 'push'").plain_name


REFUSED = [
    *[
        (f"git push {operator} id", "operator")
        for operator in (";", "&", "|", "<", ">", "(", ")", "&&", "||", ";;", "2>", "<<")
    ],
    *[(f"git push {char}x", "expand") for char in "$`~*?[{"],
    *[(f'git push "{char}x"', "expand") for char in "$`"],
    ("git push a~", "expand"),
    ("git push #x", "comment"),
    ("#git push", "comment"),
    ("A=b git push", "assignment"),
    ("A= git push", "assignment"),
    ("'A=b' git push", "assignment"),
    ("A+=b git push", "assignment"),
    ("=git push", "assignment"),
    ("git push '", "single quote"),
    ("git push 'a", "single quote"),
    ('git push "a', "double quote"),
    ('git push "a\\"', "double quote"),
    ("git push \\", "backslash"),
    ("", "empty"),
    ("   ", "empty"),
    ("git push\nid", "U+000A"),
    ("git push\rid", "U+000D"),
    ("git push \\\nid", "U+000A"),
    ("git\tpush", "U+0009"),
    ("git push '\n'", "U+000A"),
    ("git push \0", "U+0000"),
    ("git push \x1b[2J", "U+001B"),
    ("git push \x7f", "U+007F"),
    ("git push \u200b", "U+200B"),
    ("git push \u202e", "U+202E"),
    ("git\u00a0push", "U+00A0"),
    ("git push \u2028", "U+2028"),
    ("git push \udcff", "U+DCFF"),
    ("git push \ue000", "U+E000"),
    ("a" * (128 * 1024 + 1), "too long"),
    *[
        (f"{word} git push", "reserved word")
        for word in "! } ]] case coproc do done elif else esac fi for function if in".split()
    ],
    *[(f"{word} git push", "reserved word") for word in "select then time until while".split()],
    *[(f"{word} git push", "expand") for word in ("{", "[[", "[")],
    ("'if' x", "reserved word"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_whatever_is_more_than_words_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(NotSimple) as caught:
        parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "point",
    [
        *(*range(0x20), *range(0x7F, 0xA1), 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180E, 0x180F),
        *(
            *range(0x2000, 0x2010),
            *range(0x2028, 0x2030),
            *range(0x205F, 0x2070),
            0x2800,
            0x3000,
            0x3164,
            0xFEFF,
            0xFFA0,
        ),
        *(
            *range(0xFE00, 0xFE10),
            0xFFF9,
            0xFFFB,
            0x1D173,
            0xE0001,
            0xE0020,
            0xE007F,
            0xE0100,
            0xE01EF,
            0x10FFFF,
            0xD800,
        ),
    ],
)
def test_every_character_that_hides_or_reorders_is_deceptive(point: int) -> None:
    assert is_deceptive(chr(point))


@pytest.mark.parametrize("char", [*map(chr, range(0x20, 0x7F)), "\u00e9", "\u4f60", "\u0301", "\U0001f600", "\u2192"])
def test_what_a_person_can_see_is_not_deceptive(char: str) -> None:
    assert not is_deceptive(char)


@given(words=st.lists(st.text().filter(lambda text: not any(map(is_deceptive, text))), max_size=5))
def test_words_that_were_quoted_come_back_as_they_were(words: list[str]) -> None:
    command = parse(shlex.join(["git", *words]))
    assert command.argv == ("git", *words)
    assert command.plain_name


@given(text=st.text())
def test_any_text_is_words_or_not_simple(text: str) -> None:
    try:
        command = parse(text)
    except NotSimple:
        return
    assert command.argv
    assert not any(map(is_deceptive, text))
