"""What every command has around it: options that may stand anywhere, and errors as sentences with a code."""

from __future__ import annotations

import pytest

from crabpot.decide.commands import parse
from crabpot.doors.cli.frame import FAILED, OK, USAGE, UsageError, complain, hoisted, run, shell_text
from crabpot.errors import ConfigError, CrabpotError, Problem, SessionError

ORDERS = [
    (["--config", "F", "explain"], ["--config", "F", "explain"]),
    (["explain", "--config", "F"], ["--config", "F", "explain"]),
    (["explain", "--json", "--config=F", "--session", "K"], ["--config=F", "explain", "--json", "--session", "K"]),
    (["explain", "--state", "D", "--config", "F"], ["--state", "D", "--config", "F", "explain"]),
    (
        ["config", "--config", "F", "get", "--state=D", "tools"],
        ["--config", "F", "--state=D", "config", "get", "tools"],
    ),
    (["explain", "--", "x", "--config", "F"], ["explain", "--", "x", "--config", "F"]),
    (["explain", "--config", "F", "--", "--state", "D"], ["--config", "F", "explain", "--", "--state", "D"]),
    (["explain", "--config"], ["explain", "--config"]),
    (["explain", "--config", "--", "x"], ["explain", "--config", "--", "x"]),
    (["explain", "--configure", "F"], ["explain", "--configure", "F"]),
    ([], []),
]


@pytest.mark.parametrize(("given", "expected"), ORDERS)
def test_config_and_state_may_stand_before_or_after_the_command(given: list[str], expected: list[str]) -> None:
    assert hoisted(given) == expected


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["git push origin main"], "git push origin main"),
        (["git push; id"], "git push; id"),
        (["git", "push", "a b"], "git push 'a b'"),
        (["git", "push;", "id"], "git 'push;' id"),
        (["ls"], "ls"),
        (["ls", ""], "ls ''"),
    ],
)
def test_one_argument_is_shell_text_and_several_are_quoted(words: list[str], text: str) -> None:
    assert shell_text(words) == text
    if len(words) > 1:
        assert list(parse(text).argv) == words


def _raising(error: BaseException) -> int:
    return run(lambda _: (_ for _ in ()).throw(error), [])


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            ConfigError(Problem(file="F", line=3, path="a.b", message="is wrong", hint="do this")),
            USAGE,
            "F:3: a.b: is wrong (do this)",
        ),
        (UsageError("no such thing"), USAGE, "no such thing"),
        (SessionError("empty"), USAGE, "empty"),
        (CrabpotError("failed"), FAILED, "failed"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_a_sentence_and_a_code(
    error: BaseException, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _raising(error) == code
    shown = capfd.readouterr().err
    assert said in shown
    assert "Traceback" not in shown
    assert all(line.startswith("crabpot: ") for line in shown.splitlines())


def test_a_bug_of_ours_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        _raising(ZeroDivisionError())


def test_what_a_command_returns_is_the_exit_code() -> None:
    assert run(lambda _: OK, []) == OK
    assert run(len, ["a", "b"]) == 2


def test_nothing_in_an_error_can_move_the_cursor(capfd: pytest.CaptureFixture[str]) -> None:
    complain("file \x1b[2J\u202e\r: wrong\nsecond")
    assert capfd.readouterr().err == "crabpot: file <U+001B>[2J<U+202E><U+000D>: wrong\ncrabpot: second\n"
