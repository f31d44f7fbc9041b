"""A pattern is words: which commands it takes, which patterns can take nothing, and which give the host away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.decide.patterns import matches, problem_with

TABLE = [
    ("git push", "git push", True),
    ("git push", "git push x", False),
    ("git push", "git", False),
    ("git push *", "git push", True),
    ("git push *", "git push a", True),
    ("git push *", "git push a b ../c /etc", True),
    ("git push *", "git pull", False),
    ("git push *", "git", False),
    ("  git   push * ", "git push a", True),
    ("brew *", "brew", True),
    ("brew *", "brew install x", True),
    ("brew*", "brew", False),
    ("ls", "ls", True),
    ("ls", "LS", False),
    ("LS", "LS", True),
    ("git * origin", "git push origin", True),
    ("git * origin", "git origin", False),
    ("git * origin", "git a b origin", False),
    ("git * *", "git push", True),
    ("git * *", "git push a b", True),
    ("git * *", "git", False),
    ("cat /var/log/*", "cat /var/log/syslog", True),
    ("cat /var/log/*", "cat /var/log/.hidden", True),
    ("cat /var/log/*", "cat /var/log/apt/history.log", False),
    ("cat /var/log/*", "cat /var/log/../../etc/shadow", False),
    ("cat /var/log/*", "cat /var/log/..", False),
    ("cat /var/log/*", "cat /var/log/.", False),
    ("cat /var/log/*", "cat /var/log/", False),
    ("cat /var/log/*", "cat /var/log//x", False),
    ("cat /var/log/*", "cat /var/log", False),
    ("cat /var/log/*", "cat //var/log/x", False),
    ("cat /var/log/*", "cat /var/log/a b", False),
    ("cat /var/*/x", "cat /var/../x", False),
    ("cat /var/*/x", "cat /var/./x", False),
    ("cat /var/*/x", "cat /var/a/x", True),
    ("cat /var/*/x", "cat /var/a/b/x", False),
    ("cat /var/??", "cat /var/..", False),
    ("cat /var/?", "cat /var/.", False),
    ("cat /var/.*", "cat /var/..", False),
    ("cat /var/.*", "cat /var/.a", True),
    ("cat /var/.?", "cat /var/..", False),
    ("cat /var/*.", "cat /var/..", False),
    ("cat /var/?.", "cat /var/..", False),
    ("cat /var/*.log", "cat /var/a.log", True),
    ("cat /var/*.log", "cat /var/.log", True),
    ("cat /var/a?c", "cat /var/abc", True),
    ("cat /var/a?c", "cat /var/a/c", False),
    ("cat /var/a?c", "cat /var/ac", False),
    ("cat *.txt", "cat a.txt", True),
    ("cat *.txt", "cat /etc/a.txt", False),
    ("cat *.txt", "cat ../a.txt", False),
    ("cat ../*", "cat ../a", True),
    ("cat ../*", "cat ../..", False),
    ("cat ..", "cat ..", True),
    ("cat *x", "cat x", True),
    ("cat ?", "cat .", False),
    ("cat ??", "cat ..", False),
    ("cat a*b*c", "cat aXbYc", True),
    ("cat a*b*c", "cat abbc", True),
    ("cat a*b*c", "cat acb", False),
    ("cat a**c", "cat abc", True),
    ("cat [ab]", "cat a", False),
    ("cat [ab]", "cat [ab]", True),
    ("cat a.c", "cat abc", False),
    ("cat a.*", "cat aXb", False),
    ("cat (a|b)*", "cat a", False),
    ("cat {a,b}", "cat a", False),
    ("cat \\*", "cat \\x", True),
    ("cat \\*", "cat *", False),
    ("systemctl status *", "systemctl status", True),
    ("systemctl status *", "systemctl stop", False),
    ("git push -- *", "git push --", True),
    ("git push -- *", "git push", False),
]


@pytest.mark.parametrize(("pattern", "command", "taken"), TABLE)
def test_a_pattern_takes_words(pattern: str, command: str, *, taken: bool) -> None:
    assert matches(pattern, tuple(command.split(" "))) is taken


def test_a_star_in_the_middle_takes_one_word_and_never_an_empty_one() -> None:
    assert not matches("git * origin", ("git", "", "origin"))
    assert matches("git push *", ("git", "push", ""))
    assert not matches("cat a *x", ("cat", "a", ""))


def test_a_word_with_a_line_end_does_not_pass_for_the_word_without() -> None:
    assert not matches("git push", ("git", "push\n"))
    assert not matches("cat a?", ("cat", "ab\n"))
    assert not matches("cat a*b", ("cat", "ab\n"))


def test_no_words_are_taken_by_nothing() -> None:
    assert not matches("ls *", ())


NOTHING = [
    "",
    "   ",
    "*",
    "* push",
    "/usr/bin/git *",
    "./x",
    "a/b",
    "-x",
    "g*t push",
    "?",
    "'git' push",
    "~/x",
    "$X",
    "\u0433it",
    "git\u200b x",
    "[ *",
]


@pytest.mark.parametrize("pattern", NOTHING)
def test_a_pattern_whose_first_word_is_no_plain_name_is_a_problem_and_takes_nothing(pattern: str) -> None:
    assert problem_with(pattern)
    for argv in ((pattern,), tuple(pattern.split()), ("git", "push"), ("x",)):
        assert not matches(pattern, argv)


def test_a_pattern_with_a_path_says_which_name_to_write() -> None:
    assert 'write "git"' in str(problem_with("/usr/bin/git push"))


@pytest.mark.parametrize("pattern", ["ls", "git push *", "g++ x", "python3.11 x", "systemd-run *", "_x", "7z *"])
def test_a_plain_name_is_no_problem(pattern: str) -> None:
    assert problem_with(pattern) is None


def test_a_long_word_and_many_stars_are_matched_in_no_time() -> None:
    assert not matches("cat " + "a*" * 30 + "b", ("cat", "a" * 100_000))
    assert matches("cat " + "a*" * 30, ("cat", "a" * 100_000))


def _slow(pattern: str, part: str) -> bool:
    if not pattern:
        return not part
    if pattern[0] == "*":
        return any(_slow(pattern[1:], part[at:]) for at in range(len(part) + 1))
    return bool(part) and pattern[0] in ("?", part[0]) and _slow(pattern[1:], part[1:])


@given(pattern=st.text("ab*?./", min_size=1, max_size=7), word=st.text("ab./", max_size=7))
def test_a_word_is_matched_part_by_part_as_the_definition_says(pattern: str, word: str) -> None:
    patterns, parts = pattern.split("/"), word.split("/")
    special = [set("*?") & set(each) for each in patterns]
    expected = len(patterns) == len(parts) and all(
        (part not in ("", ".", "..") and _slow(each, part)) if marked else each == part
        for each, part, marked in zip(patterns, parts, special, strict=True)
    )
    assert matches(f"x {pattern} end", ("x", word, "end")) is expected


@given(pattern=st.text("ab*? /", min_size=1, max_size=9), words=st.lists(st.text("ab./", max_size=3), max_size=4))
def test_what_a_pattern_without_the_open_end_takes_the_open_one_takes_too(pattern: str, words: list[str]) -> None:
    argv = ("x", *words)
    if matches(f"x {pattern}", argv):
        assert matches(f"x {pattern} *", argv) or pattern.split()[-1:] == ["*"]
