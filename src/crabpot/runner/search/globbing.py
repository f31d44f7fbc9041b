"""Match path patterns part by part while a tree is walked, so that only folders that can hold a match are entered."""

from __future__ import annotations

from ..core.arguments import invalid
from .wildcard import expand_braces, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Callable

    # How far each alternative of the pattern has come: its number and its next part.
    State = frozenset[tuple[int, int]]

_MAX_READINGS = 1000
_FOLDERS = None
_NOT_HIDDEN, _NOTHING = r"(?!\.).*", "(?!)"


class Glob:
    """A pattern of the glob tool. `**` is any number of folders; a name with a leading dot must be matched by a dot."""

    def __init__(self, pattern: str) -> None:
        readings = expand_braces(pattern, _MAX_READINGS)
        if readings is None:
            raise invalid(f"the braces of the pattern expand to more than {_MAX_READINGS} patterns")
        self._readings = [_compile(reading) for reading in readings]
        self.folders = pattern.endswith("/")
        self.start = self._close({(number, 0) for number in range(len(self._readings))})
        # What a file's name must be in a folder of each state: a tree has many files, and few states.
        self._names: dict[State, Callable[[str], object]] = {}
        self._whole = frozenset({(0, len(self._readings[0]))})

    def step(self, state: State, name: str, folder: bool, _taken_back: bool) -> State | None:  # noqa: FBT001
        """Return the state after one more part of a path; None if no path that begins so can match."""
        if not folder:
            return self._whole if self.names(state)(name) else None
        hidden = name.startswith(".")
        reached: set[tuple[int, int]] = set()
        for number, at in state:
            parts = self._readings[number]
            if at == len(parts):
                continue
            part = parts[at]
            if part is _FOLDERS:
                if not hidden:
                    reached.add((number, at))
                if not hidden and at == len(parts) - 1:
                    reached.add((number, len(parts)))
            elif part.fullmatch(name):
                reached.add((number, at + 1))
        return self._close(reached) if reached else None

    def names(self, state: State) -> Callable[[str], object]:
        """Return a test of whether a file's name completes one of the patterns in a folder of this state."""
        return self._names.get(state) or self._names.setdefault(state, self._last_parts(state))

    def _last_parts(self, state: State) -> Callable[[str], object]:
        import re  # noqa: PLC0415  # only a search needs it

        ends = [self._readings[number][at] for number, at in state if at == len(self._readings[number]) - 1]
        expressions = [_NOT_HIDDEN if part is _FOLDERS else f"(?:{part.pattern})" for part in ends]
        if self.folders:
            expressions = []  # A pattern that ends with a slash names no file.
        return re.compile("|".join(dict.fromkeys(expressions)) or _NOTHING, re.DOTALL).fullmatch

    def matches(self, state: State) -> bool:
        """Return whether the path that led to this state matches."""
        return state is self._whole or any(at == len(self._readings[number]) for number, at in state)

    def _close(self, reached: set[tuple[int, int]]) -> State:
        todo = list(reached)
        for number, at in todo:
            parts = self._readings[number]
            if at < len(parts) - 1 and parts[at] is _FOLDERS and (number, at + 1) not in reached:
                reached.add((number, at + 1))
                todo.append((number, at + 1))
        return frozenset(reached)


def path_filter(pattern: str | None) -> Callable[[bytes], bool]:
    """Return the filter of grep's `glob`: by name, or by path if the pattern has a slash; a leading `!` inverts it."""
    if pattern is None:
        return lambda _path: True
    wanted = not pattern.startswith("!")
    bare = pattern if wanted else pattern[1:]
    by_path = "/" in bare.rstrip("/")
    regex = _regex(bare.lstrip("/"), braces=True)

    def accepts(path: bytes) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        return bool(regex.fullmatch(text if by_path else text.rpartition("/")[2])) is wanted

    return accepts


def _compile(reading: str) -> list[Pattern[str] | None]:
    if reading.startswith("/"):
        raise invalid("the pattern is absolute; name the folder as path, and the pattern relative to it")
    parts = [part for part in reading.split("/") if part not in ("", ".")]
    if not parts:
        raise invalid('the pattern is empty; "**" stands for every file')
    if ".." in parts:
        raise invalid("the pattern has a .. part; name the folder as path instead")
    return [_FOLDERS if part == "**" else _part(part) for part in parts]


def _part(part: str) -> Pattern[str]:
    return _regex(part, braces=False, hidden=part.startswith((".", "\\.")))


def _regex(pattern: str, *, braces: bool, hidden: bool = True) -> Pattern[str]:
    import re  # noqa: PLC0415  # only a search needs it

    expression = translate(pattern, braces=braces)
    if expression is None:
        raise invalid(f"{pattern!r:.80} is not a path pattern: a bracket, brace or backslash in it is not closed")
    return re.compile(expression if hidden else rf"(?!\.){expression}", re.DOTALL)
