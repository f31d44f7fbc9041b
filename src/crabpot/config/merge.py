"""Merge one layer of configuration over another, and record where each merged value was written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.config.document import Array, Member, Object, Value, is_null

if TYPE_CHECKING:
    from collections.abc import Iterator

# Lists that are concatenated; every other value is replaced.
ADDED_UP = frozenset(
    {
        "sandbox.binds",
        "sandbox.network.allow",
        "sandbox.network.raw",
        "tools.allow",
        "tools.deny",
        "tools.sandbox.allow",
        "tools.sandbox.deny",
    }
)


def merge(base: Value | None, over: Value | None, path: str) -> Value | None:
    """Merge `over` onto `base`, key by key. A null counts as unset: it must not erase a deny of the layer below."""
    if over is None or is_null(over):
        return base
    if base is None:
        return over
    if isinstance(base, Object) and isinstance(over, Object) and not _replaces(path, over, base):
        return _merge_objects(base, over, path)
    if path in ADDED_UP and isinstance(base, Array) and isinstance(over, Array):
        return replace(over, items=(*base.items, *over.items))
    return over


def _merge_objects(base: Object, over: Object, path: str) -> Object:
    members = {member.key: member for member in base.members}
    for member in over.members:
        before = members.get(member.key)
        value = merge(before.value if before else None, member.value, f"{path}.{member.key}")
        members[member.key] = Member(key=member.key, start=member.start, value=value or member.value)
    return replace(over, members=tuple(members.values()))


def _replaces(path: str, over: Object, base: Object) -> bool:
    """Return whether `over` replaces `base`: a network's name replaces a list and vice versa; two lists are joined."""
    if path != "sandbox.network":
        return False
    return any(_name(network) != "allow" for network in (over, base))


def _name(network: Object) -> object:
    name = network.get("name")
    return None if name is None else name.scalar


def places(value: Value | None, path: str) -> Iterator[tuple[str, Value]]:
    """Yield every merged path at and below `path` with the value written there."""
    if value is None or is_null(value):
        return
    yield path, value
    if isinstance(value, Object):
        for member in value.members:
            yield from places(member.value, f"{path}.{member.key}")
    elif isinstance(value, Array):
        for index, item in enumerate(value.items):
            yield from places(item, f"{path}[{index}]")
