"""Turn a pattern into a looser one for ripgrep, which then only narrows down the files that are searched here.

The pattern is Python's, and ripgrep has another dialect. The expression made here matches every line that the
pattern matches, and some more: letters and classes are exact for ASCII, any other character stands for any other, and
what ripgrep lacks (lookaround, back references, word boundaries) is left out. So both ways give the same answer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

# Bytes: a file need not be UTF-8, and then each stray byte counts as a character here and as none there.
_OTHER = r"[\x80-\xff]{1,4}"
_ANY = rf"(?:[\x00-\x09\x0b-\x7f]|{_OTHER})"
_IGNORE_CASE = 2
_ASCII = 256
_NEWLINE = 10
_ASCII_END = 128
_MANY = 1000
# Letters that Python, ignoring case, also matches outside ASCII: the Turkish i, the Kelvin sign, the long s.
_WIDE_LETTERS = frozenset("iIkKsS")


class _CannotWidenError(Exception):
    """The pattern contains something that has no looser form."""


def parse(pattern: str, flags: int) -> Any:
    """Return the tree of a pattern that compiles."""
    try:
        from re import _parser as parser  # type: ignore[attr-defined]  # noqa: PLC0415
    except ImportError:
        import sre_parse as parser  # noqa: PLC0415
    return parser.parse(pattern, flags)


def widen(tree: Any) -> str | None:
    """Return the expression for ripgrep; None if none would narrow anything down."""
    flags = tree.state.flags
    if flags & _ASCII:
        return None
    try:
        expression = _sequence(tree, ignore_case=bool(flags & _IGNORE_CASE))
    except (_CannotWidenError, RecursionError, UnicodeError):
        return None
    return f"(?-u){expression}" if expression else None


def required_literal(tree: Any) -> bytes:
    """Return the longest text that every match contains; empty if none is certain."""
    best = run = ""
    if tree.state.flags & _IGNORE_CASE:
        return b""
    for operation, argument in tree:
        run = run + chr(argument) if str(operation) == "LITERAL" else ""
        best = max(best, run, key=len)
    try:
        return best.encode("utf-8", "surrogateescape")
    except UnicodeError:
        return b""


def _sequence(nodes: Any, *, ignore_case: bool) -> str:
    return "".join(_node(str(operation), argument, ignore_case=ignore_case) for operation, argument in nodes)


def _group(nodes: Any, *, ignore_case: bool) -> str:
    return f"(?:{_sequence(nodes, ignore_case=ignore_case)})"


def _node(operation: str, argument: Any, *, ignore_case: bool) -> str:
    form = _FORMS.get(operation)
    if form is None:
        raise _CannotWidenError(operation)
    return form(argument, ignore_case)


def _subpattern(argument: Any, ignore_case: bool) -> str:  # noqa: FBT001
    _, added, removed, nodes = argument
    if added & _ASCII:
        raise _CannotWidenError("other classes")
    return _group(nodes, ignore_case=(ignore_case or bool(added & _IGNORE_CASE)) and not removed & _IGNORE_CASE)


def _branch(argument: Any, ignore_case: bool) -> str:  # noqa: FBT001
    return "(?:" + "|".join(_sequence(each, ignore_case=ignore_case) for each in argument[1]) + ")"


def _repeat(argument: Any, ignore_case: bool) -> str:  # noqa: FBT001
    least, most, nodes = argument
    inner = _sequence(nodes, ignore_case=ignore_case)
    if not inner:
        return ""
    # An upper bound, or a very high lower one, would only make the expression larger.
    return f"(?:{inner})?" if most == 1 and least == 0 else f"(?:{inner}){{{min(least, _MANY)},}}"


def _position(where: str) -> str:
    if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return "^"
    if where in ("AT_END", "AT_END_STRING"):
        return r"\r?$"  # the carriage return of a line's ending is not part of the line here
    return ""


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


def _class(items: Sequence[tuple[str, Any]], *, ignore_case: bool) -> str:
    negated = items[0][0] == "NEGATE"
    items = items[1:] if negated else items
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


def _is_ascii(item: tuple[str, Any]) -> bool:
    kind, value = item
    return (kind == "LITERAL" and value < _ASCII_END) or (kind == "RANGE" and value[1] < _ASCII_END)


def _matches(item: tuple[str, Any], char: str) -> bool:
    kind, value = item
    if kind == "LITERAL":
        return bool(ord(char) == value)
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if kind != "CATEGORY":
        raise _CannotWidenError(kind)
    name = str(value).replace("_NOT", "")
    tests: dict[str, bool] = {
        "CATEGORY_DIGIT": char.isdigit(),
        "CATEGORY_SPACE": char.isspace(),
        "CATEGORY_WORD": char.isalnum() or char == "_",
    }
    if name not in tests:
        raise _CannotWidenError(name)
    return tests[name] != ("_NOT" in str(value))


# By the names of Python's parser; an operation that it may add one day is searched without ripgrep.
_FORMS: dict[str, Callable[[Any, bool], str]] = {
    "ANY": lambda _argument, _ignore_case: _ANY,
    "LITERAL": lambda code, ignore_case: _literal(code, ignore_case=ignore_case),
    "NOT_LITERAL": lambda code, ignore_case: _class([("NEGATE", None), ("LITERAL", code)], ignore_case=ignore_case),
    "IN": lambda items, ignore_case: _class([(str(kind), value) for kind, value in items], ignore_case=ignore_case),
    "AT": lambda where, _ignore_case: _position(str(where)),
    "BRANCH": _branch,
    "MAX_REPEAT": _repeat,
    "MIN_REPEAT": _repeat,
    "POSSESSIVE_REPEAT": _repeat,
    "SUBPATTERN": _subpattern,
    "ATOMIC_GROUP": lambda nodes, ignore_case: _group(nodes, ignore_case=ignore_case),
    "ASSERT": lambda _argument, _ignore_case: "",
    "ASSERT_NOT": lambda _argument, _ignore_case: "",
    "FAILURE": lambda _argument, _ignore_case: "",
    "GROUPREF": lambda _argument, _ignore_case: f"{_ANY}*",
    "GROUPREF_IGNORE": lambda _argument, _ignore_case: f"{_ANY}*",
}
