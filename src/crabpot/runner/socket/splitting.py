"""Splits the text of one simple command into words, for runners that have no shell to do it."""

from __future__ import annotations

from ..core.failure import ToolError

_MEANT_FOR_SHELLS = ";&|<>()\n$`~*?[{"
_ESCAPED_IN_DOUBLE_QUOTES = ('"', "\\", "$", "`", "\n")


def split(text: str) -> list[str]:
    """The words, with quotes taken off. What only a shell could do is refused rather than handed on as a word."""
    words: list[str] = []
    begun = False
    at = 0
    while at < len(text):
        if text[at] in " \t":
            begun, at = False, at + 1
            continue
        if text[at] == "#" and not begun:
            raise _refused("it holds a comment")
        part, at = _part(text, at)
        if begun:
            words[-1] += part
        else:
            words.append(part)
        begun = True
    if not words:
        raise _refused("there is no word in it")
    return words


def _part(text: str, at: int) -> tuple[str, int]:
    """The next piece of a word, and where it ends."""
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
        raise _refused("%r means something to a shell only (quote it, if it is meant as it stands)" % char)
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
