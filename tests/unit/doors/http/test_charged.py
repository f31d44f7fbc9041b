"""What a token sends is charged to it from the first byte, and read in its turn while it keeps the loop busy."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.protocol import Reading
from crabpot.scheduling.fair_loop import FairLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

S = "agent:main:main"
LARGE = 8 * 1024**2
# What no path may be: that is said once all of it has come.
TOO_LONG = 400


class Transport:
    """Notes whether it is read from."""

    reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


@pytest.mark.parametrize("first", ["request", "principal"])
def test_nothing_is_read_until_the_request_has_room_and_the_principal_may_go_on(first):
    transport: Any = Transport()
    flow = Reading(transport)
    flow.pause_reading()
    flow.rest()
    (flow.resume_reading if first == "request" else flow.end_rest)()
    assert not transport.reads
    (flow.end_rest if first == "request" else flow.resume_reading)()
    assert transport.reads


class Noting(FairLoop):
    """Counts what was read for whom, and how often one had to rest."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Counter[str] = Counter()
        self.rested = 0

    def charge(self, whose: str, seconds: float, go_on: Callable[[], None]) -> bool:
        self.read[whose] += 1
        rests = super().charge(whose, seconds, go_on)
        self.rested += rests
        return rests


async def large_body(door: Any, role: Role, owes_s: float = 0.0, **more: Any) -> tuple[Noting, int]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Noting)
    async with door() as made:
        client = made.client(made.tokens.add("somebody", role, **more))
        path = f"/v1/sessions/{S}/tools/ls"
        assert (await client.post(path, json={})).status_code == 200
        # What is read for the sandbox is charged, too.
        loop.read.clear()
        loop.charge("somebody", owes_s, lambda: None)
        answer = await client.post(path, json={"path": "x" * LARGE})
    return loop, answer.status_code


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=Noting) as runner:
        return runner.run(work)


def test_a_body_is_charged_to_whoever_sends_it(door):
    loop, status = run(large_body(door, Role.AGENT, sessions=(S,)))
    assert status == TOO_LONG
    assert loop.read["somebody"] > 10


def test_who_keeps_the_loop_busy_is_read_from_in_its_turn_and_answered_all_the_same(door):
    loop, status = run(large_body(door, Role.AGENT, owes_s=0.2, sessions=(S,)))
    assert status == TOO_LONG
    assert loop.rested > 10


def test_an_operators_body_waits_for_nobody(door):
    loop, status = run(large_body(door, Role.OPERATOR))
    assert status == TOO_LONG
    # The one charge is the test's own.
    assert loop.read["somebody"] == 1
