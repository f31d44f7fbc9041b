"""Frozen dataclasses of our own: the same to whoever uses them as the standard library's."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from crabpot.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where something is."""

    x: int
    y: int = 0
    names: dict[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Point):
    """One with a name, which must not be empty."""

    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """No field at all."""


@dataclass(frozen=True, kw_only=True)
class Unslotted:
    """One whose instances have a dictionary."""

    x: int


def standard(cls: type) -> Any:
    """Return the same class as the standard library makes it."""
    made = {
        one.name: field(default=one.default, default_factory=one.default_factory) for one in dataclasses.fields(cls)
    }
    wanted = [(one.name, one.type, made[one.name]) for one in dataclasses.fields(cls)]
    return dataclasses.make_dataclass(cls.__name__, wanted, frozen=True, slots=True, kw_only=True)


def test_nothing_is_compiled_before_the_first_use() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Fresh:
        x: int

    assert not inspect.isfunction(Fresh.__dict__["__init__"])
    assert Fresh(x=1).x == 1
    assert inspect.isfunction(Fresh.__dict__["__init__"])


def test_a_signature_is_that_of_the_standard_library() -> None:
    def of(cls: Any) -> list[tuple[str, object]]:
        return [(one.name, one.kind) for one in inspect.signature(cls).parameters.values()]

    assert of(Point) == of(standard(Point))
    assert of(Named) == of(standard(Named))


def test_what_is_missing_unknown_or_not_named_is_an_error() -> None:
    for arguments, named in (((), {}), ((), {"x": 1, "z": 2}), ((1,), {})):
        with pytest.raises(TypeError):
            Point(*arguments, **named)  # type: ignore[arg-type]


def test_defaults_are_taken_and_made_anew_for_each() -> None:
    one, other = Point(x=1), Point(x=1)
    assert (one.y, one.names, one.note) == (0, {}, "")
    assert one.names is not other.names


def test_no_field_changes_or_goes_and_none_is_added() -> None:
    for made in (Point(x=1), Unslotted(x=1)):
        with pytest.raises(FrozenInstanceError):
            made.x = 2  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            del made.x
        with pytest.raises((FrozenInstanceError, AttributeError)):
            made.__setattr__("other", 2)
        assert made.x == 1


def test_equal_are_those_of_one_class_whose_compared_fields_are() -> None:
    assert Point(x=1, note="a") == Point(x=1, note="b")
    assert Point(x=1) != Point(x=2)
    assert Named(x=1, name="a") != Point(x=1)
    assert Nothing() == Nothing()
    other: object = Unslotted(x=1)
    assert Nothing() != other
    assert Unslotted(x=1) == Unslotted(x=1)


def test_a_hash_is_by_what_is_compared() -> None:
    assert hash(Unslotted(x=1)) == hash(Unslotted(x=1))
    assert len({Unslotted(x=1), Unslotted(x=1), Unslotted(x=2)}) == 2
    with pytest.raises(TypeError):
        hash(Point(x=1))  # A dictionary among the fields.


def test_it_shows_its_fields_but_for_those_that_are_hidden() -> None:
    assert repr(Point(x=1, note="hidden")) == "Point(x=1, y=0, names={})"
    assert repr(Nothing()) == "Nothing()"


def test_a_subclass_has_all_fields_and_checks_its_own() -> None:
    made = Named(x=1, name="a")
    assert (made.x, made.y, made.name) == (1, 0, "a")
    assert Point(x=2).x == 2
    with pytest.raises(ValueError, match="no name"):
        Named(x=1, name="")


def test_it_is_replaced_copied_and_taken_apart_as_any_dataclass() -> None:
    made = Point(x=1, names={"a": 1})
    assert dataclasses.replace(made, y=3) == Point(x=1, y=3, names={"a": 1})
    assert dataclasses.asdict(made) == {"x": 1, "y": 0, "names": {"a": 1}, "note": ""}
    assert copy.copy(made) == copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(Unslotted(x=1)) == Unslotted(x=1)


def test_it_has_a_signature_before_its_first_use_also_as_newer_pythons_ask() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Unused(Point):
        z: int

    unbound = Unused.__dict__["__init__"]
    # Since 3.13 `inspect` takes the class for the instance, and its metaclass for the owner.
    assert "z" in inspect.signature(unbound.__get__(Unused, type)).parameters
    assert "z" in inspect.signature(Unused).parameters


def test_threads_that_come_at_once_all_get_an_init() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Unused(Point):
        z: int

    late = Unused.__dict__["__init__"]
    assert Unused(x=1, z=2).z == 2
    # The second thread had found what the first has replaced.
    made = object.__new__(Unused)
    late.__get__(made, Unused)(x=1, z=3)
    assert made == Unused(x=1, z=3)
