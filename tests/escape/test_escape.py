"""Every attack against every backend that confines, as root and as an ordinary user. A claim that does not hold is a hole."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import pytest

from crabpot.proof.verify.catalogue import CLAIMS, GROUPS
from tests.support import pods
from tests.support.backends import need, of_a_lane
from tests.support.ordinary_user import as_ordinary_user
from tests.support.suites import BWRAP, run_suite

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

BACKENDS = ("bubblewrap", BWRAP, "docker")
# A pod is the same whoever asks for it.
WHOEVER = of_a_lane()


def cases(who: str, backends: tuple[str, ...]) -> list[ParameterSet]:
    """List each claim over each backend. The claims of one are tried at one opening, so they stay in one process."""
    return [
        pytest.param(
            backend,
            claim.name,
            id=f"{backend}-{claim.name}",
            marks=pytest.mark.xdist_group(f"attacks on {backend} as {who}"),
        )
        for backend in backends
        for claim in CLAIMS
    ]


@cache
def own(backend: str) -> dict[str, dict[str, str]]:
    return {line["name"]: line for line in asyncio.run(run_suite("escape", backend))}


def judge(backend: str, found: dict[str, str]) -> None:
    if found["state"] == "degraded":
        # The backend says so in `explain`, before anything runs: known, and not to be taken for kept.
        pytest.skip(f"{backend} keeps only a part of it here: {found['told']}")
    assert found["state"] == "held", found["told"]


@pytest.mark.parametrize(("backend", "name"), cases("who runs the tests", (*BACKENDS, *WHOEVER)))
def test_as_who_runs_the_tests(backend: str, name: str) -> None:
    need(backend)
    found = own(backend)[name]
    if backend in WHOEVER and (reason := pods.CLAIMS.get(name)):
        assert found["state"] != "held", f"it holds after all; the reason was: {reason}"
        return
    judge(backend, found)


def test_no_reason_is_for_a_claim_that_there_is_not() -> None:
    assert pods.CLAIMS.keys() <= {claim.name for claim in CLAIMS}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else; these ran as an ordinary user")
@pytest.mark.parametrize(("backend", "name"), cases("an ordinary user", BACKENDS))
def test_as_an_ordinary_user(backend: str, name: str) -> None:
    need(backend)
    judge(backend, as_ordinary_user("escape", backend)[name])


def test_every_claim_has_a_name_of_its_own_and_says_why() -> None:
    assert not [name for name, count in Counter(claim.name for claim in CLAIMS).items() if count > 1]
    assert not [claim.name for claim in CLAIMS if not claim.because]


def test_there_are_attacks_of_every_kind() -> None:
    assert [group for group in GROUPS if not any(claim.group == group for claim in CLAIMS)] == []
    assert len(CLAIMS) >= 100
