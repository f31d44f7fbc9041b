"""Match a command's words against a pattern's words."""

from __future__ import annotations

import re
from functools import cache

_FIRST_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)


def problem_with(pattern: str) -> str | None:
    """Return why a pattern can match nothing, or None."""
    words = pattern.split()
    if not words:
        return "the pattern is empty"
    if "/" in words[0]:
        name = words[0].rsplit("/", 1)[-1]
        return f'the first word is a name looked up on the trusted path, not a path: write "{name}"'
    if not _FIRST_WORD.fullmatch(words[0]):
        return f'the first word must be the plain name of a command, not "{words[0]}"'
    return None


def matches(pattern: str, argv: tuple[str, ...]) -> bool:
    """Return whether a pattern matches these words. One that `problem_with` refuses matches none."""
    if problem_with(pattern) or not argv:
        return False
    words = pattern.split()
    open_ended = len(words) > 1 and words[-1] == "*"
    fixed = words[:-1] if open_ended else words
    if len(argv) < len(fixed) or (len(argv) > len(fixed) and not open_ended):
        return False
    return argv[0] == fixed[0] and all(_word_matches(p, w) for p, w in zip(fixed[1:], argv[1:], strict=False))


def _word_matches(pattern: str, word: str) -> bool:
    """Match one word, part by part: `*` and `?` do not cross `/`, and never stand for `.`, `..` or nothing at all."""
    if not ("*" in pattern or "?" in pattern):
        return pattern == word
    patterns, parts = pattern.split("/"), word.split("/")
    return len(patterns) == len(parts) and all(map(_part_matches, patterns, parts))


def _part_matches(pattern: str, part: str) -> bool:
    if not ("*" in pattern or "?" in pattern):
        return pattern == part
    if part in ("", ".", ".."):
        return False
    return _expression(pattern).fullmatch(part) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    # Atomic groups: an agent's long word must not take polynomial time if a pattern has several `*`.
    first, *middle = ("".join("[^/]" if char == "?" else re.escape(char) for char in p) for p in pattern.split("*"))
    if not middle:
        return re.compile(first, re.DOTALL)
    *middle, last = middle
    return re.compile(first + "".join(f"(?>[^/]*?{part})" for part in middle) + "[^/]*" + last, re.DOTALL)
