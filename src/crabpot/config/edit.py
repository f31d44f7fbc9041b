"""Change one value of a configuration text and leave every other byte alone."""

from __future__ import annotations

import json
import os
import re
from typing import TypeAlias

from crabpot.config.document import Array, Object, SyntaxProblem, Value, is_null
from crabpot.config.reading import SPACE, parse
from crabpot.state.files import write_whole
from crabpot.wording import counted

Step: TypeAlias = str | int

APPEND = -1

_STEP = re.compile(r'(?:^|(?!^)\.)(?:"([^"]*)"|([^.\[\]"]+))|\[([0-9]{1,6}|\+)\]')
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_INDENT = re.compile(r"[ \t]*")


class EditRefused(ValueError):
    """The edit cannot be made; the message says why."""


def parse_path(text: str) -> list[Step]:
    """Parse `tools.deny[1]`, `agents.entries.ops` or `tools.deny[+]`, which appends."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            raise EditRefused(f'"{text}" is not a path such as tools.deny[1] or agents.defaults.sandbox.mode')
        quoted, bare, index = match.groups()
        steps.append(_index(index) if index else (quoted if bare is None else bare))
        at = match.end()
    if not steps:
        raise EditRefused("the path is empty")
    return steps


def _index(text: str) -> int:
    return APPEND if text == "+" else int(text)


def find(root: Value, steps: list[Step]) -> Value | None:
    """Return the value at a path, or None."""
    at: Value | None = root
    for step in steps:
        at = _child(at, step)
    return at


def _child(value: Value | None, step: Step) -> Value | None:
    if isinstance(value, Object) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, Array) and isinstance(step, int) and 0 <= step < len(value.items):
        return value.items[step]
    return None


def entry_of(text: str, agent: str) -> str:
    """Return the path of an agent's own entry, where it is written or else would be; ids ignore letter case."""
    agents = _child(parse(text), "agents")
    entries, listed = _child(agents, "entries"), _child(agents, "list")
    for member in entries.members if isinstance(entries, Object) else ():
        if member.key.lower() == agent:
            return f'agents.entries."{member.key}"'
    for index, item in enumerate(listed.items if isinstance(listed, Array) else ()):
        named = _child(item, "id")
        if named is not None and str(named.scalar).lower() == agent:
            return f"agents.list[{index}]"
    return f'agents.entries."{agent}"'


def written(value: str) -> str:
    """Return the text to write for a value: JSON5 as it is, a bare word as a string.

    Comments around it are left out: a trailing one would swallow the rest of its line.
    """
    try:
        read = parse(value)
    except SyntaxProblem as problem:
        if value[:1] in tuple("{['\"") or not value.strip() or "\n" in value:
            raise EditRefused(f"the value is not JSON5: {problem}") from None
        return json.dumps(value, ensure_ascii=False)
    return value[read.start : read.end]


def set_value(text: str, path: str, value: str) -> str:
    """Return the text with one value set; comments, order, formatting and neighbours stay."""
    steps = parse_path(path)
    new = written(value)
    root = parse(text)
    at: Value = root
    for depth, step in enumerate(steps):
        if is_null(at):
            return text[: at.start] + _nested(steps[depth:], new) + text[at.end :]
        child = _child(at, step)
        if child is None:
            return _insert(text, at, steps[depth:], new)
        at = child
    return text[: at.start] + new + text[at.end :]


def _insert(text: str, into: Value, steps: list[Step], new: str) -> str:
    first, *rest = steps
    new = _nested(rest, new)
    if isinstance(first, str):
        if not isinstance(into, Object):
            raise EditRefused(f"{into.path or 'the file'} is not an object, so it has no key {first!r}")
        last = into.members[-1].value.end if into.members else None
        return _append(text, into, last, f"{_key(first)}: {new}")
    if not isinstance(into, Array):
        raise EditRefused(f"{into.path or 'the file'} is not a list, so it has no item [{first}]")
    if first not in (APPEND, len(into.items)):
        raise EditRefused(f"{into.path} has {counted(len(into.items), 'item')}; [+] appends one")
    return _append(text, into, into.items[-1].end if into.items else None, new)


def _nested(steps: list[Step], new: str) -> str:
    for step in reversed(steps):
        new = f"{{ {_key(step)}: {new} }}" if isinstance(step, str) else f"[{new}]"
        if isinstance(step, int) and step not in (0, APPEND):
            raise EditRefused(f"there is no list to put item {step} into")
    return new


def _key(step: str) -> str:
    return step if _BARE_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)


def _append(text: str, container: Value, last: int | None, new: str) -> str:
    """Add after the last entry: on a line of its own where the entries have theirs, else on the same line."""
    closing = container.end - 1
    if last is None:
        inside = text[container.start + 1 : closing]
        if "\n" in inside:
            return _add_line(text, container, closing, f"{new},")
        pad = " " if isinstance(container, Object) else ""
        return f"{text[:closing].rstrip() if not inside.strip() else text[:closing]}{pad}{new}{pad}{text[closing:]}"
    gap = SPACE.match(text, last)
    comma = text[gap.end() : gap.end() + 1] == "," if gap else False
    if "\n" not in text[last:closing]:
        separator = " " if comma else ", "
        end = gap.end() + 1 if gap and comma else last
        return f"{text[:end]}{separator}{new}{text[end:]}"
    if not comma:
        text, closing = f"{text[:last]},{text[last:]}", closing + 1
    return _add_line(text, container, closing, f"{new}," if comma else new)


def _add_line(text: str, container: Value, closing: int, new: str) -> str:
    line = text.rfind("\n", 0, closing) + 1
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = _indent_of(text, container, line)
    if text[line:closing].strip():
        head = text[:closing].rstrip()
        return f"{head}{newline}{indent}{new}{text[len(head) :]}"
    return f"{text[:line]}{indent}{new}{newline}{text[line:]}"


def _indent_of(text: str, container: Value, line: int) -> str:
    """Return the indent of the last entry that begins a line, else two spaces more than the closing bracket's line."""
    starts: list[int] = []
    if isinstance(container, Object):
        starts = [member.start for member in container.members]
    elif isinstance(container, Array):
        starts = [item.start for item in container.items]
    for start in reversed(starts):
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if "\n" in text[container.start : start] and not before.strip():
            return before
    found = _INDENT.match(text, line)
    return (found.group() if found else "") + "  "


def write_atomically(file: str, text: str) -> None:
    """Replace a file's content atomically, through links, keeping its mode; a new file is private to its owner."""
    target = os.path.realpath(file)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    write_whole(target, text, like=os.stat(target) if os.path.exists(target) else None)
