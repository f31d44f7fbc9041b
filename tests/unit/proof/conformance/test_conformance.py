"""A promise that is not kept is seen, whatever way it is broken."""

from __future__ import annotations

import asyncio

import pytest

from crabpot.model import Failure, ToolResult
from crabpot.proof.conformance.harness import Harness
from crabpot.proof.conformance.promises import Broken, Promise, bad, good, same, true
from crabpot.proof.conformance.run import PROMISES, applying, check

GROUND = Harness(open_gateway=lambda _text, _state: None, backend="bubblewrap")


def checked(body) -> str:
    return asyncio.run(check(Promise(name="p", check=body), GROUND)).broken


def test_a_kept_promise_has_nothing_to_say() -> None:
    async def kept(_ground) -> None:
        return

    assert checked(kept) == ""


def test_a_backend_that_raises_has_broken_its_promise() -> None:
    async def raising(_ground) -> None:
        raise OSError("no such socket")

    assert checked(raising) == "OSError: no such socket"


def test_what_came_and_what_was_expected_is_told() -> None:
    async def unequal(_ground) -> None:
        same("size", 1, 2)

    assert checked(unequal) == "size: got 1, expected 2"


def test_a_failed_call_is_not_good_and_a_good_one_not_bad() -> None:
    failed = ToolResult(id="1", success=False, error=Failure(code="not_found", message="no file"))
    worked = ToolResult(id="1", success=True, data={"size": 1})
    assert good(worked) == {"size": 1}
    assert bad(failed, "not_found") == "no file"
    for wrong in (
        lambda: good(failed),
        lambda: bad(worked, "not_found"),
        lambda: bad(failed, "outside"),
        lambda: true("x", 0),
    ):
        with pytest.raises(Broken):
            wrong()


def test_on_the_host_only_what_needs_no_walls_applies() -> None:
    host = Harness(open_gateway=lambda _text, _state: None, backend="host")
    assert set(applying(host)) < set(applying(GROUND)) == set(PROMISES)


def test_every_promise_has_a_name_of_its_own() -> None:
    assert len({promise.name for promise in PROMISES}) == len(PROMISES)
