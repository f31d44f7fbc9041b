"""Two people for the real tests; their state, with its bundle and probe, is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import people

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=["root", "ordinary user"])
def person(request: pytest.FixtureRequest) -> Iterator[people.Person]:
    """Everybody, one after the other."""
    made = people.make("root" if request.param == "root" else "user")
    yield made
    people.forget(made)


@pytest.fixture(scope="session")
def root() -> Iterator[people.Person]:
    """Root alone."""
    made = people.make("root")
    yield made
    people.forget(made)


@pytest.fixture(scope="session")
def user() -> Iterator[people.Person]:
    """An ordinary user alone."""
    made = people.make("user")
    yield made
    people.forget(made)
