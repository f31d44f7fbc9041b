"""Every promise over every backend of this build, as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from crabpot.proof.conformance.harness import HOST, Harness
from crabpot.proof.conformance.run import PROMISES, check
from tests.ordinary_user import as_ordinary_user, open_gateway, skip_or_fail, unavailable

if TYPE_CHECKING:
    from crabpot.proof.conformance.promises import Promise

BACKENDS = ("bubblewrap", "docker", HOST)
CASES = [
    pytest.param(backend, promise, id=f"{backend}-{promise.name}")
    for backend in BACKENDS
    for promise in PROMISES
    if not (promise.sandbox_only and backend == HOST)
]

reason_against = cache(unavailable)
ordinary = cache(as_ordinary_user)


def require(backend: str) -> None:
    if backend != HOST and (reason := reason_against(backend)):
        skip_or_fail(backend, reason)


@pytest.mark.parametrize(("backend", "promise"), CASES)
def test_as_who_runs_the_tests(backend: str, promise: Promise) -> None:
    require(backend)
    checked = asyncio.run(check(promise, Harness(open_gateway=open_gateway, backend=backend)))
    assert not checked.broken, checked.broken


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; these ran as an ordinary user")
@pytest.mark.parametrize(("backend", "promise"), CASES)
def test_as_an_ordinary_user(backend: str, promise: Promise) -> None:
    require(backend)
    came = ordinary("conformance", backend)[promise.name]
    assert came["state"] == "held", came["told"]
