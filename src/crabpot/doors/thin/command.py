"""Read a command line that the thin client can carry out, and find the gateway that is its own."""

from __future__ import annotations

import os

from crabpot.doors.local.identity import SOCKET_NAME, of_code, of_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crabpot.doors.thin.claude import Handed

_ANYWHERE = ("--config", "--state")
_VALUED = {
    "exec": ("--session", "--cwd", "--timeout"),
    "mcp": ("--session", "--sender"),
    "prefix": ("--session", "--timeout", "--workspace"),
}
_FLAGS = {"exec": (), "mcp": ("--elicit", "--structured"), "prefix": ()}
_SESSION = "agent:main:main"
_CLIENT = "claude"
# What `sessions.parse` takes without a question; every other key is read by the whole program.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789:._-")
_LONGEST_KEY, _LONGEST_ID, _PARTS = 256, 64, 3
_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./-_")
_LARGEST_CONFIG = 1 << 20
_LONGEST_ADDRESS = 107
_KINDS, _REGULAR = 0o170000, 0o100000
_OURS = "crabpot.json5"


class NotForUs(Exception):
    """The whole program must do it: another command, another option, or a wrong one."""


class Command:
    """One command line: its options, and the words after `--`."""

    def __init__(self, arguments: list[str]) -> None:
        self.name = ""
        self.options: dict[str, str] = {}
        self.words: list[str] = []
        self._read(arguments)
        self.session = self.options.get("--session", _SESSION)
        if not is_plain(self.session):
            raise NotForUs
        self.handed = _handed(self.words[0]) if self.name == "prefix" else None

    def _read(self, arguments: list[str]) -> None:
        at = 0
        while at < len(arguments):
            word = arguments[at]
            at += 1
            option, equals, value = word.partition("=")
            if option in _ANYWHERE or (self.name and option in _VALUED[self.name]):
                if not equals:
                    value = arguments[at] if at < len(arguments) else "-"
                    at += 1
                if value.startswith("-"):
                    raise NotForUs
                self.options[option] = value
            elif self.name and word in _FLAGS[self.name]:
                self.options[word] = ""
            elif not self.name and word in _VALUED:
                self.name = word
                at += self._names_client(arguments[at : at + 1])
            else:
                self.words = self._rest(arguments[at - 1 :])
                break
        if not self.name or (self.name != "mcp" and not self.words):
            raise NotForUs

    def _names_client(self, following: list[str]) -> int:
        if self.name == "prefix" and following != [_CLIENT]:
            raise NotForUs
        return int(self.name == "prefix")

    def _rest(self, words: list[str]) -> list[str]:
        """Return the command's own words; without `--` none may look like an option."""
        if self.name == "prefix" and words[0] == "--" and len(words) == 2:  # noqa: PLR2004  and the text
            return words[1:]
        if self.name != "exec" or (words[0] != "--" and any(one.startswith("-") for one in words)):
            raise NotForUs
        return words[1:] if words[0] == "--" else words

    def args(self) -> dict[str, Any]:
        """Return the arguments of the tool `exec`."""
        args: dict[str, Any] = {"command": self.words[0] if len(self.words) == 1 else " ".join(map(quoted, self.words))}
        if self.handed is not None:
            args = {"command": self.handed.command, "cwd": os.getcwd()}
        if "--cwd" in self.options:
            args["cwd"] = self.options["--cwd"]
        if "--timeout" in self.options:
            args["timeout"] = _seconds(self.options["--timeout"])
        return args


def _handed(text: str) -> Handed:
    from crabpot.doors.thin.claude import Handed  # noqa: PLC0415  for one command alone

    return Handed(text)


def is_plain(session: str) -> bool:
    """Return whether a key is one that every part of the program reads in the same way."""
    parts = session.split(":", 2)
    plain = len(session) <= _LONGEST_KEY and _PLAIN.issuperset(session) and len(parts) == _PARTS and all(parts)
    return (
        plain and parts[0] == "agent" and parts[1][0].isalnum() and len(parts[1]) <= _LONGEST_ID and "." not in parts[1]
    )


def quoted(word: str) -> str:
    """Quote a word for a shell, as `shlex` does, which imports regular expressions."""
    if word and _UNQUOTED.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise NotForUs from None
    if not 0 < seconds < float("inf"):
        raise NotForUs
    return seconds


class ListeningPlace:
    """Where the gateway of this caller would listen, and what the caller says of itself."""

    def __init__(self, options: dict[str, str]) -> None:
        home = os.environ.get("HOME", "")
        if not home.startswith("/") or os.path.lexists(_OURS):
            raise NotForUs
        self.state = (
            _chosen(options, "--state", "CRABPOT_STATE") or f"{_base('XDG_STATE_HOME', home, '.local/state')}/crabpot"
        )
        self.socket = f"{self.state}/{SOCKET_NAME}"
        if len(os.fsencode(self.socket)) > _LONGEST_ADDRESS:
            raise NotForUs
        config = _chosen(options, "--config", "CRABPOT_CONFIG")
        usual = f"{_base('XDG_CONFIG_HOME', home, '.config')}/crabpot/{_OURS}"
        if config is None and os.path.lexists(usual):
            config = usual
        self.claims = {
            "config": of_config(config, b"" if config is None else _content(config)),
            "code": of_code(os.environ),
        }


def _chosen(options: dict[str, str], option: str, variable: str) -> str | None:
    chosen = options.get(option) or os.environ.get(variable)
    if chosen is not None and (chosen.startswith("~") or not chosen):
        raise NotForUs
    return None if chosen is None else os.path.abspath(chosen)


def _base(variable: str, home: str, usual: str) -> str:
    given = os.environ.get(variable, "")
    return given if given.startswith("/") else f"{home}/{usual}"


def _content(path: str) -> bytes:
    # A FIFO or a device could block, or never end.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(fd)
        if facts.st_mode & _KINDS != _REGULAR or facts.st_size > _LARGEST_CONFIG:
            raise NotForUs
        return os.read(fd, _LARGEST_CONFIG)
    finally:
        os.close(fd)
