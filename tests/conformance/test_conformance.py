"""Every promise over every backend of this build, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from crabpot.proof.conformance.harness import HOST, Harness
from crabpot.proof.conformance.run import PROMISES, check
from tests.support import pods
from tests.support.backends import need, of_a_lane
from tests.support.ordinary_user import as_ordinary_user
from tests.support.suites import BWRAP, TOLD, opener, plain_name

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from crabpot.proof.conformance.promises import Promise

BACKENDS = ("bubblewrap", BWRAP, "docker", HOST)
# A pod is the same whoever asks for it.
WHOEVER = of_a_lane()


def cases(who: str, backends: tuple[str, ...]) -> list[ParameterSet]:
    """List each promise over each backend, in groups for the processes that run them."""
    return [
        pytest.param(
            backend,
            promise,
            id=f"{backend}-{promise.name}",
            marks=pytest.mark.xdist_group(f"promises of {backend} to {who}"),
        )
        for backend in backends
        for promise in PROMISES
        if not (promise.sandbox_only and backend == HOST)
    ]


def require(backend: str) -> None:
    if backend != HOST:
        need(backend)


@pytest.mark.parametrize(("backend", "promise"), cases("who runs the tests", (*BACKENDS, *WHOEVER)))
def test_as_who_runs_the_tests(backend: str, promise: Promise) -> None:
    require(backend)
    harness = Harness(open_gateway=opener(backend), backend=plain_name(backend), sandbox=TOLD.get(backend, {}))
    checked = asyncio.run(check(promise, harness))
    if backend in WHOEVER and (reason := pods.PROMISES.get(promise.name)):
        assert checked.broken, f"it holds after all; the reason was: {reason}"
        return
    assert not checked.broken, checked.broken


def test_no_reason_is_for_a_promise_that_there_is_not() -> None:
    assert pods.PROMISES.keys() <= {promise.name for promise in PROMISES}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; these ran as an ordinary user")
@pytest.mark.parametrize(("backend", "promise"), cases("an ordinary user", BACKENDS))
def test_as_an_ordinary_user(backend: str, promise: Promise) -> None:
    require(backend)
    came = as_ordinary_user("conformance", backend)[promise.name]
    assert came["state"] == "held", came["told"]
