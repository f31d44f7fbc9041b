"""Read one simple command from the text of an `exec` call, for runners that have no shell to do it."""

from __future__ import annotations

from ..core.failure import ToolError, encode_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ARGUMENTS = ("command", "cwd", "timeout", "stdin", "background")
_MEANT_FOR_SHELLS = ";&|<>()\n$`~*?[{"
_ESCAPED_IN_DOUBLE_QUOTES = ('"', "\\", "$", "`", "\n")


def simple_command(args: dict[str, Any]) -> tuple[list[str], bytes | None]:
    """Return the argv and the input of an `exec` call."""
    for name, value in args.items():
        if name not in _ARGUMENTS and value not in (None, False):
            known = ", ".join(_ARGUMENTS)
            raise ToolError("invalid_arguments", "on this runner exec takes %s, and no %.80r" % (known, name))
    if type(args.get("command")) is not str:
        raise ToolError("invalid_arguments", "exec needs the argument command, as text")
    stdin = args.get("stdin")
    if stdin is not None and type(stdin) is not str:
        raise ToolError("invalid_arguments", "stdin is not a string")
    return split(args["command"]), None if stdin is None else encode_text(stdin, "stdin")


def split(text: str) -> list[str]:
    """Return the words without their quotes. What only a shell could do is refused rather than passed as a word."""
    words: list[str] = []
    begun = False
    at = 0
    while at < len(text):
        if text[at] in " \t":
            begun, at = False, at + 1
            continue
        if text[at] == "#" and not begun:
            raise _refused("it contains a comment")
        part, at = _part(text, at)
        if begun:
            words[-1] += part
        else:
            words.append(part)
        begun = True
    if not words:
        raise _refused("it is empty")
    return words


def _part(text: str, at: int) -> tuple[str, int]:
    """Return the next piece of a word, and where it ends."""
    char = text[at]
    if char == "'":
        end = text.find("'", at + 1)
        if end < 0:
            raise _refused("a single quote is not closed")
        return text[at + 1 : end], end + 1
    if char == '"':
        return _double_quoted(text, at + 1)
    if char == "\\":
        if at + 1 == len(text):
            raise _refused("it ends in a backslash")
        return text[at + 1], at + 2
    if char in _MEANT_FOR_SHELLS:
        raise _refused("%r means something to a shell only (quote it to pass it literally)" % char)
    return char, at + 1


def _double_quoted(text: str, at: int) -> tuple[str, int]:
    part = ""
    while at < len(text):
        char = text[at]
        at += 1
        if char == '"':
            return part, at
        if char in "$`":
            raise _refused("%r is for a shell to expand" % char)
        if char == "\\" and text[at : at + 1] in _ESCAPED_IN_DOUBLE_QUOTES:
            char, at = text[at], at + 1
        part += char
    raise _refused("a double quote is not closed")


def _refused(why: str) -> ToolError:
    return ToolError("invalid_arguments", "this runner has no shell, and runs one simple command: %s" % why)
