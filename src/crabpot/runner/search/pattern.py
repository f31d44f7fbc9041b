"""Reads a regular expression of Python's `re` into a tree: as much of the language as a prefilter is made of.

Only what `re` has compiled is read. What is not known here (verbose patterns, conditional groups, names of characters,
whatever Python adds one day) is given up, and the search goes without a prefilter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple

    # A node's kind, and what belongs to it.
    Node = Tuple[str, Any]

# The bits of re.IGNORECASE, re.VERBOSE and re.ASCII.
IGNORE_CASE, _VERBOSE, ASCII = 2, 64, 256

_DIGITS = frozenset("0123456789")
_CATEGORIES = frozenset("dDsSwW")
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_ENDS = {"A": "start", "Z": "end", "z": "end", "b": "boundary", "B": "boundary"}
_LOOKS = ("=", "!", "<=", "<!")
_ENDLESS = 1 << 32


class UnknownPatternError(Exception):
    """The pattern holds something that is not read here."""


def read(pattern: str, flags: int) -> list[Node]:
    """Return the nodes of a pattern that compiles to these flags; UnknownPatternError if any part is unknown."""
    if flags & _VERBOSE:
        raise UnknownPatternError("verbose")
    reader = _Reader(pattern)
    try:
        nodes = reader.alternatives()
    except (IndexError, ValueError, RecursionError):
        raise UnknownPatternError(pattern) from None
    if reader.at != len(pattern):
        raise UnknownPatternError(pattern)
    return nodes


class _Reader:
    """A place in a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0

    def _next(self) -> str:
        self.at += 1
        return self._pattern[self.at - 1]

    def _take(self, text: str) -> bool:
        if not self._pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _until(self, end: str) -> str:
        found = self._pattern.index(end, self.at)
        text = self._pattern[self.at : found]
        self.at = found + len(end)
        return text

    def alternatives(self) -> list[Node]:
        """Read up to the end, or up to a closing bracket."""
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        alike = 0
        while all(branch[alike : alike + 1] == branches[0][alike : alike + 1] != [] for branch in branches):
            alike += 1
        return [*branches[0][:alike], ("branch", [branch[alike:] for branch in branches])]

    def _sequence(self) -> list[Node]:
        items: list[list[Node]] = []
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            bounds = self._bounds()
            if bounds is None:
                item = self._item()
                if item is not None:
                    items.append(item)
            else:
                items[-1] = [("repeat", (*bounds, items[-1]))]
        return [node for item in items for node in item]

    def _bounds(self) -> tuple[int, int] | None:
        """How often the item before may stand here; None where no repetition is written."""
        began = self.at
        sign = self._next()
        if sign in "*+?":
            bounds: tuple[int, int] | None = (1 if sign == "+" else 0, 1 if sign == "?" else _ENDLESS)
        else:
            bounds = self._braces() if sign == "{" else None
            if bounds is None:
                self.at = began
                return None
        # As few as possible, or all at once: the same lines match, or fewer.
        if not self._take("?"):
            self._take("+")
        return bounds

    def _braces(self) -> tuple[int, int] | None:
        least = self._number()
        most = self._number() if self._take(",") else least
        written = self._pattern[self.at - 1] != "{"
        if not written or not self._take("}"):
            return None
        return int(least or 0), int(most) if most else _ENDLESS

    def _number(self) -> str:
        began = self.at
        while self.at < len(self._pattern) and self._pattern[self.at] in _DIGITS:
            self.at += 1
        return self._pattern[began : self.at]

    def _item(self) -> list[Node] | None:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return [self._class()]
        if char == "\\":
            return [self._escape()]
        if char == ".":
            return [("any", None)]
        if char in "^$":
            return [("at", "start" if char == "^" else "end")]
        return [("literal", ord(char))]

    def _escape(self) -> Node:
        char = self._next()
        if char in _ENDS:
            return "at", _ENDS[char]
        if char in "123456789":
            if self._number():
                raise UnknownPatternError("a number of several digits")
            return "reference", None
        node = self._char_or_category(char)
        return ("in", [node]) if node[0] == "category" else node

    def _char_or_category(self, char: str) -> Node:
        if char in _CATEGORIES:
            return "category", char
        if char in _CONTROLS:
            return "literal", _CONTROLS[char]
        if char in _HEX_LENGTHS:
            began, self.at = self.at, self.at + _HEX_LENGTHS[char]
            return "literal", int(self._pattern[began : self.at], 16)
        if char == "0" and not self._number():
            return "literal", 0
        if char.isascii() and char.isalnum():
            raise UnknownPatternError("an escape that is not known")
        return "literal", ord(char)

    def _class(self) -> Node:
        negated = self._take("^")
        items: list[Node] = []
        while not items or self._pattern[self.at] != "]":
            first = self._member()
            if self._pattern[self.at] == "-" and self._pattern[self.at + 1] != "]":
                self.at += 1
                last = self._member()
                if (first[0], last[0]) != ("literal", "literal"):
                    raise UnknownPatternError("a range of what is no character")
                first = "range", (first[1], last[1])
            items.append(first)
        self.at += 1
        if len(items) == 1 and items[0][0] == "literal" and not negated:
            return items[0]
        return "not in" if negated else "in", items

    def _member(self) -> Node:
        char = self._next()
        if char != "\\":
            return "literal", ord(char)
        char = self._next()
        return ("literal", 8) if char == "b" else self._char_or_category(char)

    def _group(self) -> list[Node] | None:
        """Read what is in brackets; None for a comment, and for flags of the whole pattern."""
        if not self._take("?"):
            return [("group", self._closed())]
        if self._take("#"):
            self._until(")")
            return None
        if self._take("P="):
            self._until(")")
            return [("reference", None)]
        if self._take("P<"):
            self._until(">")
            return [("group", self._closed())]
        if self._take(":"):
            return self._closed()
        if self._take(">"):
            return [("group", self._closed())]
        for sign in _LOOKS:
            if self._take(sign):
                self._closed()
                return [("look", None)]
        return self._flagged()

    def _closed(self) -> list[Node]:
        nodes = self.alternatives()
        if not self._take(")"):
            raise UnknownPatternError("a bracket that does not close")
        return nodes

    def _flagged(self) -> list[Node] | None:
        began = self.at
        while self._pattern[self.at] not in ":)":
            self.at += 1
        added, _, removed = self._pattern[began : self.at].partition("-")
        if not set(added) <= set("aimsu") or not set(removed) <= set("ims"):
            raise UnknownPatternError("flags, or a group, that are not known")
        if self._next() == ")":
            return None
        return [("flagged", (added, removed, self._closed()))]
