"""JSON5 text as a tree that knows the position of every key and value.

Positions are why this is not a library: errors name the line, edits replace exactly one value and leave every comment
alone, and a duplicate key is refused instead of the last one winning.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from crabpot.frozen import dataclass

Scalar: TypeAlias = str | int | float | bool | None


class SyntaxProblem(ValueError):
    """The text is not JSON5; `offset` is where the error is, `path` the setting it is in, if known."""

    def __init__(self, message: str, offset: int, path: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A scalar and the span of text that it was read from; `path` is where it was written."""

    path: str
    start: int
    end: int
    scalar: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Value):
    """A list, in its order."""

    items: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One `key: value` of an object."""

    key: str
    start: int
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Value):
    """An object; keys are unique."""

    members: tuple[Member, ...] = ()

    def get(self, key: str) -> Value | None:
        """Return a member's value by key, or None."""
        return next((member.value for member in self.members if member.key == key), None)


Plain: TypeAlias = "Scalar | tuple[Plain, ...] | dict[str, Plain]"


def plain(value: Value) -> Plain:
    """Return the value without positions. A member that is null counts as unset, and is left out."""
    if isinstance(value, Object):
        return {m.key: plain(m.value) for m in value.members if not is_null(m.value)}
    if isinstance(value, Array):
        return tuple(plain(item) for item in value.items)
    return value.scalar


def is_null(value: Value) -> bool:
    """Return whether this is a written null."""
    return type(value) is Value and value.scalar is None


def kind(value: Value) -> str:
    """Return what kind of value this is, for an error."""
    if isinstance(value, Object):
        return "an object"
    if isinstance(value, Array):
        return "a list"
    names = {str: "a string", bool: "true or false", int: "a number", float: "a fraction"}
    return names.get(type(value.scalar), "null")


def line_of(text: str, offset: int) -> int:
    """Return the line of an offset, from 1."""
    ends = text.count("\n", 0, offset) + text.count("\r", 0, offset) - text.count("\r\n", 0, offset)
    return ends + 1


def join(path: str, key: str) -> str:
    """Return a written path extended by one key."""
    shown = key if re.fullmatch(r"[\w$-]+", key) else f'"{key}"'
    return f"{path}.{shown}" if path else shown
