"""Frozen dataclasses that cost little to define: a command's start defines a hundred of them, and uses few.

The standard library compiles six methods for each class when it is defined, which took a fifth of the time of
`crabpot explain`. Here five are the same functions for all classes, and `__init__` is compiled at its first use.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from dataclasses import dataclass as _standard
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    # To a type checker it is the standard one.
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  exported
else:

    def dataclass(*, frozen: bool, kw_only: bool, slots: bool = False) -> Any:
        """Return what makes a class frozen and keyword-only, which is the only kind here."""
        assert frozen and kw_only  # noqa: PT018
        return lambda cls: _define(cls, slots=slots)


def _define(cls: type, *, slots: bool) -> type:
    made: type = _standard(init=False, repr=False, eq=False, slots=slots, kw_only=True)(cls)
    compared = [one.name for one in fields(made) if one.compare]
    key = attrgetter(*compared) if compared else type

    def same(self: Any, other: object) -> bool:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    methods: dict[str, Any] = {
        "__init__": _Init(made),
        "__repr__": _repr,
        "__eq__": same,
        "__hash__": lambda self: hash(key(self)),
    }
    methods |= {"__setattr__": _refuse, "__delattr__": _refuse, **({"__setstate__": _restore} if slots else {})}
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made


class _Init:
    """The `__init__` of a class until its first use, when the compiled one takes its place."""

    def __init__(self, made: type) -> None:
        self._made = made

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # `owner` need not be the class: a subclass finds its base's, and `inspect` asks by a metaclass.
        function = _compiled(self._made)
        # Two threads may come at once: both functions do the same.
        self._made.__init__ = function  # type: ignore[misc]
        return function.__get__(instance, owner)


def _compiled(cls: Any) -> Any:
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": MISSING}
    given, body = ["self", "*"], []
    for one in fields(cls):
        value = name = one.name
        if one.default_factory is not MISSING:
            known[f"_new_{name}"] = one.default_factory
            value = f"_new_{name}() if {name} is _absent else {name}"
        known[f"_default_{name}"] = one.default
        required = one.default is MISSING and one.default_factory is MISSING
        given.append(name if required else f"{name}=_default_{name}")
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):
            # By its own setter, which has nothing to look for.
            known[f"_set_{name}"] = slot.__set__
            body.append(f" _set_{name}(self, {value})\n")
        else:
            body.append(f" _set(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()\n")
    # Names of fields are all that goes into it.
    exec(f"def __init__({', '.join(given if body else given[:1])}):\n{''.join(body) or ' pass'}", known)  # noqa: S102
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot change {name!r} of {type(self).__name__}")


def _restore(self: object, state: tuple[None, dict[str, Any]]) -> None:
    """Set what a copy of an object has, as `copy` and `pickle` ask."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)
