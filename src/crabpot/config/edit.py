"""Change one value of a configuration text and leave every other byte alone."""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import TypeAlias

from crabpot.config.document import Array, Object, SyntaxProblem, Value, parse

Step: TypeAlias = str | int

APPEND = -1

_STEP = re.compile(r'(?:^|\.)(?:("[^"\\]*")|([^.\[\]"]+))|\[(\d+|\+)\]')
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_GAP = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


class EditRefused(ValueError):
    """The edit cannot be made; the message says why."""


def parse_path(text: str) -> list[Step]:
    """Read `tools.deny[1]`, `agents.entries.ops` or `tools.deny[+]`, which appends."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            raise EditRefused(f'"{text}" is not a path such as tools.deny[1] or agents.defaults.sandbox.mode')
        quoted, bare, index = match.groups()
        steps.append(_index(index) if index else (bare or json.loads(quoted)))
        at = match.end()
    if not steps:
        raise EditRefused("the path is empty")
    return steps


def _index(text: str) -> int:
    return APPEND if text == "+" else int(text)


def find(root: Value, steps: list[Step]) -> Value | None:
    """Find the value at a path, or None."""
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


def written(value: str) -> str:
    """Give the text to write for a value: JSON5 as it is, a bare word as a string."""
    try:
        parse(value)
    except SyntaxProblem as problem:
        if value[:1] in tuple("{['\"") or not value.strip() or "\n" in value:
            raise EditRefused(f"the value is not JSON5: {problem}") from None
        return json.dumps(value, ensure_ascii=False)
    return value.strip()


def set_value(text: str, path: str, value: str) -> str:
    """Give the text with one value set; comments, order, formatting and neighbours stay."""
    steps = parse_path(path)
    new = written(value)
    root = parse(text)
    at: Value = root
    for depth, step in enumerate(steps):
        child = _child(at, step)
        if child is None:
            return _insert(text, at, steps[depth:], new)
        at = child
    return text[: at.start] + new + text[at.end :]


def _insert(text: str, into: Value, steps: list[Step], new: str) -> str:
    first, *rest = steps
    for step in reversed(rest):
        new = f"{{ {_key(step)}: {new} }}" if isinstance(step, str) else f"[{new}]"
        if isinstance(step, int) and step not in (0, APPEND):
            raise EditRefused(f"there is no list to put item {step} into")
    if isinstance(first, str):
        if not isinstance(into, Object):
            raise EditRefused(f"{into.path or 'the file'} is not an object, so it has no key {first!r}")
        last = into.members[-1].value.end if into.members else None
        return _append(text, into, last, f"{_key(first)}: {new}")
    if not isinstance(into, Array):
        raise EditRefused(f"{into.path or 'the file'} is not a list, so it has no item [{first}]")
    if first not in (APPEND, len(into.items)):
        raise EditRefused(f"{into.path} has {len(into.items)} items; [+] appends one")
    return _append(text, into, into.items[-1].end if into.items else None, new)


def _key(step: str) -> str:
    return step if _BARE_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)


def _append(text: str, container: Value, last: int | None, new: str) -> str:
    """Add after the last entry: on a line of its own where the entries have theirs, else on the same line."""
    closing = container.end - 1
    if last is None:
        inside = text[container.start + 1 : closing]
        if "\n" in inside:
            return _add_line(text, container, closing, new)
        pad = " " if isinstance(container, Object) else ""
        return f"{text[:closing].rstrip() if not inside.strip() else text[:closing]}{pad}{new}{pad}{text[closing:]}"
    gap = _GAP.match(text, last)
    comma = text[gap.end() : gap.end() + 1] == "," if gap else False
    if "\n" not in text[last:closing]:
        separator = " " if comma else ", "
        end = gap.end() + 1 if gap and comma else last
        return f"{text[:end]}{separator}{new}{text[end:]}"
    if not comma:
        text, closing = f"{text[:last]},{text[last:]}", closing + 1
    return _add_line(text, container, closing, new)


def _add_line(text: str, container: Value, closing: int, new: str) -> str:
    line = text.rfind("\n", 0, closing) + 1
    indent = _indent_of(text, container, text[line:closing])
    if text[line:closing].strip():
        return f"{text[:closing].rstrip()}\n{indent}{new},\n{text[closing:]}"
    return f"{text[:line]}{indent}{new},\n{text[line:]}"


def _indent_of(text: str, container: Value, closing_indent: str) -> str:
    """Indent as the first entry does; two spaces deeper than the closing bracket when there is none."""
    if isinstance(container, Object) and container.members:
        start = container.members[0].start
    elif isinstance(container, Array) and container.items:
        start = container.items[0].start
    else:
        return closing_indent + "  "
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return before if not before.strip() else closing_indent + "  "


def write_atomically(file: str, text: str) -> None:
    """Replace a file's content in one step, through links, keeping its mode; a new one is the owner's alone."""
    target = os.path.realpath(file)
    folder = os.path.dirname(target)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o600
    handle, temporary = tempfile.mkstemp(prefix=".crabpot-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            os.fchmod(handle, mode)
            stream.write(text)
            stream.flush()
            os.fsync(handle)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
