"""The building blocks of all command parsers."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    Adder = argparse._SubParsersAction["Parser"]  # noqa: SLF001  argparse names no public type

_USUAL_COLUMNS = 80
EPILOG = "--config FILE and --state DIR may come before or after the command."


class _Help(argparse.HelpFormatter):
    """Help as wide as the terminal. By default, argparse imports shutil to measure the terminal for every option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return (sys.__stdout__ and os.get_terminal_size(sys.__stdout__.fileno()).columns) or _USUAL_COLUMNS
    except (ValueError, OSError):
        return _USUAL_COLUMNS


class Parser(argparse.ArgumentParser):
    """Suggests the closest word, and reminds of `--`: most unknown options belong to the user's own command."""

    # Where its subcommands are added, if it has any.
    actions: Adder | None = None

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=_Help, **more)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit."""
        from crabpot.wording import closest  # noqa: PLC0415  only needed for errors

        if message.startswith("unrecognized arguments"):
            message += "; put your own command after --, as in: exec -- ls -l"
        wrong, _, known = message.partition(" (choose from ")
        if known:
            choices = known.strip(")").replace("'", "").split(", ")
            message += closest(wrong.partition("invalid choice: ")[2].strip("'"), choices)
        super().error(message)


class Outline(Parser):
    """A command of which only the name and one line are shown: its options are taken, and none is kept."""

    def __init__(self, **_more: Any) -> None:
        """Make nothing: for the top help that took longer than all the rest of it."""

    def _check_help(self, _action: Any) -> None:
        """Check nothing: Python 3.14 looks at the line with what was not made."""

    def add_argument(self, *_names: Any, **_more: Any) -> Any:
        """Keep nothing."""

    def set_defaults(self, **_values: Any) -> None:
        """Keep nothing."""

    def add_mutually_exclusive_group(self, **_more: Any) -> Any:
        """Return what takes options too."""
        return self

    def add_subparsers(self, **_more: Any) -> Any:
        """Return what takes subcommands too."""
        return self

    def add_parser(self, *_names: Any, **_more: Any) -> Outline:
        """Return what takes the options of a subcommand too."""
        return self


def positive(text: str) -> int:
    """Parse a number from 1."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be a number from 1")
    return int(text)


def add(commands: Adder, name: str, body: str, text: str) -> Parser:
    """Add a command whose body is `module:function` in this package."""
    made = commands.add_parser(name, help=text, description=text, epilog=EPILOG, allow_abbrev=False)
    made.set_defaults(body=body)
    return made


def group(commands: Adder, name: str, text: str, metavar: str = "ACTION") -> Adder:
    """Add a command with subcommands, or find the one that another part has added."""
    known = commands.choices.get(name)
    if known is not None and known.actions is not None:
        return known.actions
    made = commands.add_parser(name, help=text, description=text, epilog=EPILOG, allow_abbrev=False)
    made.actions = made.add_subparsers(metavar=metavar, required=True)
    return made.actions


def session(one: Parser) -> None:
    """Add the --session option."""
    one.add_argument("--session", default="agent:main:main", metavar="KEY", help="the session key (%(default)s)")
