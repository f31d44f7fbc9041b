"""The description of the command line, whole and in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crabpot.doors.cli.frame import command_of
from crabpot.doors.cli.main import parser
from crabpot.doors.cli.parsing import Outline

if TYPE_CHECKING:
    import argparse

COMMAND = "COMMAND"


def commands(described: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in described._actions if action.metavar == COMMAND]
    assert len(found) == 1
    return dict(found[0].choices or {})


WHOLE = commands(parser())


@pytest.mark.parametrize("name", WHOLE)
def test_the_part_that_has_a_command_describes_it_as_the_whole_does(name: str) -> None:
    part = commands(parser(name))
    assert part[name].format_help() == WHOLE[name].format_help()
    assert len(part) < len(WHOLE)


@pytest.mark.parametrize("name", [None, "", "exce", "--help", "-h", "--version", "list"])
def test_a_word_that_is_no_command_gets_the_whole(name: str | None) -> None:
    assert parser(name).format_help() == parser().format_help()
    assert set(commands(parser(name))) == set(WHOLE)


def test_a_part_has_the_usage_and_the_options_of_the_whole() -> None:
    assert parser("exec").format_usage() == parser().format_usage()
    assert parser("exec").parse_args(["--state", "/s", "exec", "true"]).state == "/s"


@pytest.mark.parametrize("words", ["--help", "-h", "--state /s --help exec", "--version", "--config /c --version exec"])
def test_what_stands_in_the_place_of_a_command_is_answered_without_describing_any(words: str, capsys: Any) -> None:
    arguments = words.split()
    described = parser(command_of(arguments))
    assert {type(command) for command in commands(described).values()} == {Outline}
    answers = []
    for whole_or_not in (described, parser()):
        with pytest.raises(SystemExit, match="0"):
            whole_or_not.parse_args(arguments)
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] != ""
