"""Path patterns (`*`, `?`, `[a-z]`, `{a,b}`, `**`) as regular expressions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

_SPECIAL = frozenset("\\.^$*+?{}[]()|-&~# \t\n\r\v\f")
_ANY = "[^/]"
_STAR = "[^/]*"
_PREFIX, _MIDDLE, _SUFFIX = "(?:.*/)?", "(?:/|/.*/)", "/.*"


def translate(pattern: str, *, braces: bool = True) -> str | None:
    """Return a regular expression for a whole path, to be compiled with DOTALL; None for a malformed pattern.

    `**` means any number of folders only as a whole part of the path, as in git and ripgrep. Without `braces` they are
    literal.
    """
    if pattern == "**":
        return ".*"
    return _Scanner(pattern).run(braces=braces)


class _Scanner:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        # The innermost open brace comes last; a level is its alternatives so far, each a list of tokens.
        self._levels: list[list[list[str]]] = [[[]]]

    def run(self, *, braces: bool) -> str | None:
        actions: dict[str, Callable[[], bool]] = {
            "*": self._star,
            "?": lambda: self._push(_ANY),
            "[": self._class,
            "\\": self._escape,
        }
        if braces:
            actions.update({"{": self._open, "}": self._close})
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            self._at += 1
            if char == "," and len(self._levels) > 1:
                self._levels[-1].append([])
            elif char in actions:
                if not actions[char]():
                    return None
            else:
                self._push(_quote(char))
        if len(self._levels) > 1:
            return None
        return "".join(self._levels[0][0])

    def _push(self, token: str) -> bool:
        self._levels[-1][-1].append(token)
        return True

    def _peek(self, offset: int = 0) -> str:
        at = self._at + offset
        return self._pattern[at : at + 1] if at >= 0 else ""

    def _star(self) -> bool:
        if self._peek() != "*":
            return self._push(_STAR)
        before = self._peek(-2)
        self._at += 1
        after = self._peek()
        tokens = self._levels[-1][-1]
        ends = not after or (len(self._levels) > 1 and after in ",}")
        if (tokens and before != "/") or not (ends or after == "/"):
            return self._push(_STAR)
        if after == "/":
            self._at += 1
        if not tokens:
            return self._push(_PREFIX)
        last = tokens.pop()
        if last == _PREFIX:
            return self._push(_PREFIX)
        return self._push(_SUFFIX if ends else _MIDDLE)

    def _class(self) -> bool:
        negated = self._peek() in ("!", "^")
        start = self._at + (1 if negated else 0)
        # A bracket that comes first is a member, not the end.
        end = self._pattern.find("]", start + 1)
        if end < 0:
            return False
        members = self._pattern[start:end]
        self._at = end + 1
        ranges = []
        at = 0
        while at < len(members):
            low = high = members[at]
            if at + 2 < len(members) and members[at + 1] == "-":
                high = members[at + 2]
                at += 2
            if high < low:
                return False
            ranges.append(_quote(low) if low == high else f"{_quote(low)}-{_quote(high)}")
            at += 1
        return self._push(f"[{'^' if negated else ''}{''.join(ranges)}]")

    def _escape(self) -> bool:
        char = self._peek()
        self._at += 1
        return bool(char) and self._push(_quote(char))

    def _open(self) -> bool:
        self._levels.append([[]])
        return True

    def _close(self) -> bool:
        if len(self._levels) == 1:
            return False
        alternatives = self._levels.pop()
        return self._push("(?:" + "|".join("".join(tokens) for tokens in alternatives) + ")")


def _quote(char: str) -> str:
    return "\\" + char if char in _SPECIAL else char


def expand_braces(pattern: str, limit: int) -> list[str] | None:
    """Return every expansion of the braces in a pattern, as a shell does; None for more than `limit` of them."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        if len(todo) + len(done) > limit:
            return None
        current = todo.pop()
        span = _first_braces(current)
        if span is None:
            done.append(current)
            continue
        start, commas, end = span
        edges = [start, *commas, end]
        parts = [current[edges[at] + 1 : edges[at + 1]] for at in range(len(edges) - 1)]
        todo += [current[:start] + part + current[end + 1 :] for part in reversed(parts)]
    return done


def _first_braces(pattern: str) -> tuple[int, list[int], int] | None:
    """Return the positions of the first `{`, its commas and its `}`; braces without a comma or an end are literal."""
    starts: list[tuple[int, list[int]]] = []
    at = 0
    found: tuple[int, list[int], int] | None = None
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            starts.append((at, []))
        elif char == "," and starts:
            starts[-1][1].append(at)
        elif char == "}" and starts:
            start, commas = starts.pop()
            if commas and (found is None or start < found[0]):
                found = (start, commas, at)
        at += 1
    return found
