"""Turn a pattern into a looser one for ripgrep, which then only narrows down the files that are searched here.

The pattern is Python's, and ripgrep has another dialect. The expression made here matches every line that the
pattern matches, and some more: letters and classes are exact for ASCII, any other character stands for any other, and
what ripgrep lacks (lookaround, back references, word boundaries) is left out. So both ways give the same answer.
"""

from __future__ import annotations

from .pattern import ASCII, IGNORE_CASE, UnknownPatternError, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

    from .pattern import Node

# Bytes: a file need not be UTF-8, and then each stray byte counts for a character here and for none there.
_OTHER = r"[\x80-\xff]{1,4}"
_ANY = rf"(?:[\x00-\x09\x0b-\x7f]|{_OTHER})"
_NEWLINE = 10
_ASCII_END = 128
_MANY = 1000
# Letters that Python, ignoring case, also matches outside ASCII: the Turkish i, the Kelvin sign, the long s.
_WIDE_LETTERS = frozenset("iIkKsS")


class _CannotWidenError(Exception):
    """The pattern contains something that has no looser form."""


def derive(pattern: str, flags: int) -> tuple[bytes, str | None]:
    """Return the longest text that every match holds, and the expression for ripgrep; empty and None if unknown.

    The pattern is one that compiles, and the flags are those that it compiles to.
    """
    try:
        nodes = read(pattern, flags)
    except UnknownPatternError:
        return b"", None
    return _required(nodes, flags), _widen(nodes, flags)


def _widen(nodes: list[Node], flags: int) -> str | None:
    """Return the expression for ripgrep; None if it would rule nothing out."""
    if flags & ASCII:
        return None
    try:
        expression = _sequence(nodes, ignore_case=bool(flags & IGNORE_CASE))
    except (_CannotWidenError, RecursionError, UnicodeError):
        return None
    return f"(?-u){expression}" if expression else None


def _required(nodes: list[Node], flags: int) -> bytes:
    """Return the longest text that every match holds; empty if none is certain."""
    best = run = ""
    if flags & IGNORE_CASE:
        return b""
    for kind, argument in nodes:
        run = run + chr(argument) if kind == "literal" else ""
        best = max(best, run, key=len)
    try:
        return best.encode("utf-8", "surrogateescape")
    except UnicodeError:
        return b""


def _sequence(nodes: list[Node], *, ignore_case: bool) -> str:
    return "".join(_FORMS[kind](argument, ignore_case) for kind, argument in nodes)


def _group(nodes: list[Node], *, ignore_case: bool) -> str:
    return f"(?:{_sequence(nodes, ignore_case=ignore_case)})"


def _flagged(argument: Any, ignore_case: bool) -> str:  # noqa: FBT001
    added, removed, nodes = argument
    if "a" in added:
        raise _CannotWidenError("other classes")
    return _group(nodes, ignore_case=(ignore_case or "i" in added) and "i" not in removed)


def _branch(branches: Any, ignore_case: bool) -> str:  # noqa: FBT001
    return "(?:" + "|".join(_sequence(each, ignore_case=ignore_case) for each in branches) + ")"


def _repeat(argument: Any, ignore_case: bool) -> str:  # noqa: FBT001
    least, most, nodes = argument
    inner = _sequence(nodes, ignore_case=ignore_case)
    if not inner:
        return ""
    # An upper bound, or a very high lower one, would only make the expression larger.
    return f"(?:{inner})?" if most == 1 and least == 0 else f"(?:{inner}){{{min(least, _MANY)},}}"


def _literal(code: int, *, ignore_case: bool) -> str:
    char = chr(code)
    if code == _NEWLINE:
        raise _CannotWidenError("a line holds no newline")
    if not ignore_case or not (char.isalpha() or code >= _ASCII_END):
        return "".join(rf"\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
    if code >= _ASCII_END:
        # It may be the other case of an ASCII letter.
        return _ANY
    both = rf"[\x{ord(char.lower()):02x}\x{ord(char.upper()):02x}]"
    return f"(?:{both}|{_OTHER})" if char in _WIDE_LETTERS else both


def _class(items: Sequence[Node], *, ignore_case: bool, negated: bool = False) -> str:
    members = []
    for code in range(_ASCII_END):
        char = chr(code)
        # A negated class excludes only what it names literally: better too loose than too strict.
        forms = {char, char.lower(), char.upper()} if ignore_case and not negated else {char}
        if any(_matches(item, form) for item in items for form in forms) != negated and code != _NEWLINE:
            members.append(rf"\x{code:02x}")
    ascii_only = not negated and not ignore_case and all(_is_ascii(item) for item in items)
    if ascii_only and members:
        return f"[{''.join(members)}]"
    if ascii_only:
        raise _CannotWidenError("an empty class")
    if ignore_case and not all(_is_ascii(item) for item in items):
        return _ANY
    return f"(?:[{''.join(members)}]|{_OTHER})" if members else _OTHER


def _is_ascii(item: Node) -> bool:
    kind, value = item
    return (kind == "literal" and value < _ASCII_END) or (kind == "range" and value[1] < _ASCII_END)


def _matches(item: Node, char: str) -> bool:
    kind, value = item
    if kind == "literal":
        return bool(ord(char) == value)
    if kind == "range":
        return bool(value[0] <= ord(char) <= value[1])
    return _CATEGORIES[value.lower()](char) != bool(value.isupper())


_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "d": str.isdigit,
    "s": str.isspace,
    "w": lambda char: char.isalnum() or char == "_",
}
# The carriage return of a line's ending is not part of the line here.
_POSITIONS = {"start": "^", "end": r"\r?$", "boundary": ""}

_FORMS: dict[str, Callable[[Any, bool], str]] = {
    "any": lambda _argument, _ignore_case: _ANY,
    "literal": lambda code, ignore_case: _literal(code, ignore_case=ignore_case),
    "in": lambda items, ignore_case: _class(items, ignore_case=ignore_case),
    "not in": lambda items, ignore_case: _class(items, ignore_case=ignore_case, negated=True),
    "at": lambda where, _ignore_case: _POSITIONS[where],
    "branch": _branch,
    "repeat": _repeat,
    "group": lambda nodes, ignore_case: _group(nodes, ignore_case=ignore_case),
    "flagged": _flagged,
    "look": lambda _argument, _ignore_case: "",
    "reference": lambda _argument, _ignore_case: f"{_ANY}*",
}
