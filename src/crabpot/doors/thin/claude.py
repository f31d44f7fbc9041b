"""What Claude Code hands its shell prefix: the model's command in a wrapping, and how it is run inside."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNQUOTED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./-_")
_ESCAPED_IN_DOUBLE_QUOTES = frozenset('$`"\\')
# What it does for its own shell before the command: inside there is no snapshot of that shell.
_SOURCE, _SOURCED = "source ", " 2>/dev/null || true && "
_OPTIONS = (
    "{ shopt -u extglob || setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL; } >/dev/null 2>&1 || true && ",
    "shopt -u extglob 2>/dev/null || true && ",
    "setopt NO_EXTENDED_GLOB 2>/dev/null || true && ",
)
_EVAL = "eval "
_WITHOUT_INPUT = (" < /dev/null", " \\< /dev/null")
# It reads the shell's folder from that file, to start the next command there.
_REPORT = " && pwd -P >| "
_CHANGES = ("cd", "pushd", "popd")
_LONGEST_PATH = 4096
# Every shell splits a text of these characters alone into words, and does nothing else with it.
_SIMPLE = _UNQUOTED - {"="} | {" "}


class Handed:
    """One command as it is run inside.

    `quiet`: it has no input. `report`: the host's file in which Claude Code looks for the folder that the command has
    changed to, None if it has not changed it. `inside`: where that folder is noted in the sandbox.
    """

    def __init__(self, text: str) -> None:
        self.quiet, self.inside = False, ""
        self.report: str | None = None
        found = unwrapped(text)
        if found is None:
            self.command = text if is_simple(text) else _in_bash(text)
            return
        command, self.quiet, report = found
        simple = is_simple(command)
        if any(word in command for word in _CHANGES) and not (simple and command.split(" ", 1)[0] not in _CHANGES):
            self.report = report
            self.inside = f"/tmp/{report.rpartition('/')[2]}"  # noqa: S108  the sandbox's own
            command, simple = f"{_EVAL}{_quoted(command)}{_REPORT}{_quoted(self.inside)}", False
        self.command = command if simple else _in_bash(command)


def unwrapped(text: str) -> tuple[str, bool, str] | None:
    """Return the model's command, whether its input is empty, and the file for its folder; None if it is not wrapped.

    What differs by a character from the wrapping that Claude Code makes is not taken apart: it runs as it is, inside.
    """
    head, _, last = text.rpartition(_REPORT)
    report, at = _word(last, 0), _begins(head)
    if report is None or report[1] != len(last) or at is None or not _is_report(report[0]):
        return None
    command = _word(head, at)
    if command is None or head[command[1] :] not in ("", *_WITHOUT_INPUT):
        return None
    return command[0], command[1] < len(head), report[0]


def _is_report(path: str) -> bool:
    name = path.rpartition("/")[2]
    return path.startswith("/") and name.startswith("claude-") and name.endswith("-cwd")


def _begins(head: str) -> int | None:
    """Return where the command begins, behind nothing but what Claude Code does before it."""
    at = 0
    while not head.startswith(_EVAL, at):
        option = next((one for one in _OPTIONS if head.startswith(one, at)), None)
        if option is not None:
            at += len(option)
            continue
        snapshot = _word(head, at + len(_SOURCE)) if head.startswith(_SOURCE, at) else None
        if snapshot is None or not head.startswith(_SOURCED, snapshot[1]):
            return None
        at = snapshot[1] + len(_SOURCED)
    return at + len(_EVAL)


def _word(text: str, at: int) -> tuple[str, int] | None:
    """Return one word without its quotes, and where it ends; None for what a shell would do more with."""
    start, word = at, ""
    while at < len(text) and text[at] != " ":
        piece = _piece(text, at)
        if piece is None:
            return None
        word, at = word + piece[0], piece[1]
    return None if at == start else (word, at)


def _piece(text: str, at: int) -> tuple[str, int] | None:
    char = text[at]
    if char == "'":
        end = text.find("'", at + 1)
        return None if end < 0 else (text[at + 1 : end], end + 1)
    if char == '"':
        return _double_quoted(text, at + 1)
    if char == "\\" and text[at + 1 : at + 2] not in ("", "\n"):
        return text[at + 1], at + 2
    return (char, at + 1) if char in _UNQUOTED else None


def _double_quoted(text: str, at: int) -> tuple[str, int] | None:
    word = ""
    while at < len(text) and text[at] != '"':
        if text[at] in "$`":
            return None
        if text[at] == "\\" and text[at + 1 : at + 2] == "\n":
            return None
        at += text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPED_IN_DOUBLE_QUOTES
        word, at = word + text[at : at + 1], at + 1
    return (word, at + 1) if at < len(text) else None


def is_simple(text: str) -> bool:
    """Return whether a text is one simple command, which any shell reads alike, and which may be elevated."""
    if text and _SIMPLE.issuperset(text):
        return True
    from crabpot.decide.commands import NotSimple, parse  # noqa: PLC0415  most commands are plain words

    try:
        parse(text)
    except NotSimple:
        return False
    return True


def _in_bash(text: str) -> str:
    # Models write for the shell that Claude Code says it has; the sandbox's own may know less.
    # The `;` makes it more than one simple command: no pattern may see bash instead of what it runs.
    return f"exec bash -c {_quoted(text)};"


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'"


def report(handed: Handed, result: dict[str, Any], root: str | None) -> None:
    """Write the folder that was noted inside, if it is one below `root`: everything inside is hostile."""
    content = (result.get("data") or {}).get("content")
    path = content.removesuffix("\n") if isinstance(content, str) else ""
    below = root is not None and (path == root or path.startswith(f"{root}/"))
    plain = 0 < len(path) < _LONGEST_PATH and path.isprintable()
    if handed.report is None or not (plain and below and os.path.realpath(path) == path and os.path.isdir(path)):
        return
    # Never over what is there: the name came with the command, and Claude Code makes a new one for each.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(handed.report, flags, 0o600)
    except OSError:
        return
    os.write(fd, os.fsencode(path))
    os.close(fd)
