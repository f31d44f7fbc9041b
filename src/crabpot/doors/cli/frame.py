"""What all commands share: the two global options, exit codes, and errors as sentences."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from crabpot.errors import ConfigError, CrabpotError, SessionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.app import App

OK, FAILED, USAGE = 0, 1, 2
TIMEOUT, OWN_FAILURE, DENIED = 124, 125, 126
# The exit codes of a program ended by SIGPIPE or Ctrl-C.
CLOSED_PIPE, INTERRUPTED = 141, 130

# Their other exit codes belong to the command that they run.
_RUNNING = ("exec", "call")
_HANDED = "prefix"
_ANYWHERE = ("--config", "--state")
# Options in the place of a command: they are answered before any command is looked at.
OF_ITSELF = ("--help", "-h", "--version")


class UsageError(CrabpotError):
    """An invalid command line."""


class Frame(NamedTuple):
    """The options of every command; no dataclass, which is slow to import, for --help."""

    config: str | None
    state: str | None

    def app(self) -> App:
        """Wire the app; print a note if a configuration in the working directory is ignored."""
        from crabpot import app  # noqa: PLC0415  --help needs none of it
        from crabpot.config.places import planted  # noqa: PLC0415

        try:
            here = os.getcwd()
            wired = app.start(config=self.config, state=self.state, environ=os.environ)
        except FileNotFoundError:
            raise UsageError("the working directory no longer exists; change to another one") from None
        stray = planted(here)
        if stray and wired.config != stray:
            note(f"{stray} is not read: an agent may have put it there. If it is yours: --config {stray}")
        return wired


def shell_text(words: list[str]) -> str:
    """Join the arguments after `--`: one is shell text, several are quoted."""
    from shlex import join  # noqa: PLC0415  --help needs none of it

    return words[0] if len(words) == 1 else join(words)


def hoisted(arguments: list[str]) -> list[str]:
    """Return the arguments with --config and --state moved to the front from anywhere before `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    front: list[str] = []
    rest: list[str] = []
    at = 0
    while at < end:
        word = arguments[at]
        if word in _ANYWHERE and at + 1 < end:
            front += arguments[at : at + 2]
            at += 2
            continue
        (front if word.startswith(tuple(f"{name}=" for name in _ANYWHERE)) else rest).append(word)
        at += 1
    return front + rest + arguments[end:]


def run(program: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command, and turn every expected error into a sentence and an exit code."""
    _occupy_standard_streams()
    _never_fail_to_encode()
    failed, usage = (OWN_FAILURE, OWN_FAILURE) if _runs_another(arguments) else (FAILED, USAGE)
    try:
        code = program(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as end:
        return usage if end.code == USAGE else int(end.code or OK)
    except (ConfigError, UsageError, SessionError) as error:
        complain(str(error))
        return usage
    except CrabpotError as error:
        complain(str(error))
        return failed
    except ModuleNotFoundError as error:
        complain(f"this needs the Python package {error.name}, which `pip install crabpot` brings along")
        return failed
    except OSError as error:
        # The reader of our output is gone, or its disk is full. Python would complain again when it flushes at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        complain(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
        return failed
    except KeyboardInterrupt:
        return INTERRUPTED


def command_of(hoisted_arguments: list[str]) -> str | None:
    """Return the command, or what stands in its place: the first word that is neither an option nor its value."""
    words = iter(hoisted_arguments)
    for word in words:
        if not word.startswith("--") or word in OF_ITSELF:
            return word
        if "=" not in word:
            next(words, None)
    return None


def _runs_another(hoisted_arguments: list[str]) -> bool:
    name = command_of(hoisted_arguments)
    return name in _RUNNING or (name == _HANDED and "--" in hoisted_arguments)


def _occupy_standard_streams() -> None:
    """Occupy descriptors 0, 1 and 2: a file or socket opened later must not become a standard stream."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004  standard error
        os.set_inheritable(spare, True)
    os.close(spare)


def _never_fail_to_encode() -> None:
    """Escape what the streams cannot encode: keys may hold undecodable bytes, and terminals may lack our arrows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """Print an error."""
    from crabpot.doors.cli.invocation import pasted  # noqa: PLC0415  only needed for errors
    from crabpot.doors.cli.show import visible  # noqa: PLC0415  as above

    for line in text.split("\n"):
        print(f"crabpot: {pasted(visible(line))}", file=sys.stderr)


def note(text: str) -> None:
    """Print a note."""
    complain(f"note: {text}")
