"""The schema of a configuration file: read values into the frozen classes of `settings`, or report what is wrong.

The classes are the schema. A general validator would have to be told the position of each value, and takes longer to
import than the rest of `crabpot explain` to run (docs/decisions/0002).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from crabpot.config.document import Array, Object, Value, is_null, join, kind
from crabpot.frozen import dataclass
from crabpot.settings import DEFAULT_WORKSPACE, Audit, Duration, Gateway, Mcp, Runner, Sandbox, Size, Tools, camel
from crabpot.wording import closest, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Complain = Callable[[Value, str, str], None]

Schema = TypeVar("Schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLayer:
    """What can be set for one agent."""

    workspace: str = DEFAULT_WORKSPACE
    sandbox: Sandbox = Sandbox()
    tools: Tools = Tools()


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultsLayer:
    """What can be set for all agents; their tools are at the top level of the file."""

    workspace: str = DEFAULT_WORKSPACE
    sandbox: Sandbox = Sandbox()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsLayer:
    """The defaults, and the agents that differ from them."""

    defaults: DefaultsLayer = DefaultsLayer()
    entries: dict[str, AgentLayer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A whole configuration file, in the schema's own spelling."""

    agents: AgentsLayer = AgentsLayer()
    tools: Tools = Tools()
    mcp: Mcp = Mcp()
    gateway: Gateway = Gateway()
    runner: Runner = Runner()
    audit: Audit = Audit()


def read(schema: type[Schema], value: Value | None, complain: Complain) -> Schema | None:
    """Read a value into a type; an absent value gives the defaults. What does not fit is reported, and left out."""
    if value is None:
        return schema()
    made: Schema | None = _read(schema, value, complain)
    return made


def _read(schema: Any, value: Value, complain: Complain) -> Any:
    if is_dataclass(schema):
        return _read_class(schema, value, complain)
    origin, inner = get_origin(schema), get_args(schema)
    # An optional Literal is the one union that typing builds itself.
    if origin in (UnionType, Union):
        return _read(_part(inner, value), value, complain)
    if origin is Literal:
        return _read_choice(inner, value, complain)
    if origin is tuple:
        if not isinstance(value, Array):
            complain(value, value.path, f"must be a list, not {kind(value)}")
            return None
        return tuple(_read(inner[0], item, complain) for item in value.items)
    if origin is not None:
        if not isinstance(value, Object):
            complain(value, value.path, f"must be an object, not {kind(value)}")
            return None
        return {m.key: _read(inner[1], m.value, complain) for m in value.members if not is_null(m.value)}
    if schema in (Size, Duration):
        return _read_amount(schema, value, complain)
    return _read_scalar(schema, value, complain)


def _part(parts: tuple[Any, ...], value: Value) -> Any:
    """Return which member of a union a value is meant for: a class takes objects, the first member everything else."""
    if isinstance(value, Object) and (classes := [part for part in parts if is_dataclass(part)]):
        return classes[0]
    return next(part for part in parts if part is not NoneType)


def _read_class(schema: Any, value: Value, complain: Complain) -> Any:
    if not isinstance(value, Object):
        complain(value, value.path, f"must be an object, not {kind(value)}")
        return None
    known, given = _known(schema), {}
    for member in value.members:
        if member.key not in known:
            hint = closest(member.key, known) or one_of(key for key in known if value.get(key) is None)
            complain(member.value, join(value.path, member.key), f"unknown key{hint}")
        elif not is_null(member.value):
            name, type_, _ = known[member.key]
            given[name] = _read(type_, member.value, complain)
    missing = [key for key, (name, _, required) in known.items() if required and name not in given]
    for key in missing:
        complain(value, value.path, f'the key "{key}" is missing')
    return None if missing else schema(**given)


@cache
def _known(schema: type[Any]) -> dict[str, tuple[str, Any, bool]]:
    hints = get_type_hints(schema)
    return {camel(f.name): (f.name, hints[f.name], _required(f)) for f in fields(schema)}


def _required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _read_choice(choices: tuple[str, ...], value: Value, complain: Complain) -> Any:
    if isinstance(value.scalar, str) and value.scalar in choices:
        return value.scalar
    shown, near = kind(value), ""
    if isinstance(value.scalar, str):
        shown, near = f'"{value.scalar}"', closest(value.scalar, choices)
    complain(value, value.path, f"{shown} is not one of {', '.join(choices)}{near}")
    return None


def _read_amount(schema: type[Size | Duration], value: Value, complain: Complain) -> Any:
    try:
        return schema.parse(None if isinstance(value, Array | Object) else value.scalar)
    except ValueError as error:
        complain(value, value.path, str(error))
        return None


_WANTED = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _read_scalar(schema: type, value: Value, complain: Complain) -> Any:
    scalar = value.scalar
    if isinstance(scalar, str) and "\0" in scalar:
        complain(value, value.path, "must not contain a NUL character")
        return None
    fits = type(scalar) is schema or (schema is float and type(scalar) is int)
    if fits and type(value) is Value:
        return schema(scalar)
    complain(value, value.path, f"must be {_WANTED[schema]}, not {kind(value)}")
    return None
