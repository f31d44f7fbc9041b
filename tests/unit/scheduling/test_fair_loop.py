"""The loop's time: whoever keeps it busy waits for itself, and neither another principal nor an operator waits for it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from crabpot.decide.scope import OPERATOR, PRINCIPAL, acting_for, behind_it
from crabpot.scheduling.fair_loop import _BURST_S, _LEAST_SHARE, _MOST_OWED_S, FairLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

MANY = 40


def run(work: Coroutine[Any, Any, Any], loop: Callable[[], asyncio.AbstractEventLoop] = FairLoop) -> Any:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Flood:
    """A principal with many tasks, none of which ever waits for anything."""

    def __init__(self, name: str, step_s: float = 0.001) -> None:
        self.steps = 0
        with behind_it(name):
            self.tasks = [asyncio.create_task(self._work(step_s)) for _ in range(MANY)]

    async def _work(self, step_s: float) -> None:
        while True:
            burn(step_s)
            self.steps += 1
            await asyncio.sleep(0)

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def steps_beside(flood: Flood, turns: int) -> int:
    """Return how many steps of a flood ran while somebody else took a few turns."""
    # Once it has had its burst.
    while flood.steps < MANY:
        await asyncio.sleep(0)
    before = flood.steps
    for _ in range(turns):
        await asyncio.sleep(0)
    return flood.steps - before


async def beside(name: str, turns: int) -> int:
    flood = Flood("hostile")
    with behind_it(name):
        counted = await asyncio.create_task(steps_beside(flood, turns))
    await flood.end()
    return counted


@pytest.mark.parametrize("name", ["honest", OPERATOR])
def test_a_flood_takes_one_slice_of_a_turn_and_not_a_step_for_each_of_its_tasks(name):
    assert run(beside(name, 10), asyncio.SelectorEventLoop) >= 10 * MANY
    # One step is longer than a slice.
    assert run(beside(name, 10)) <= 10 + 2


async def resting(debt_s: float, enough: Callable[[list[str]], bool]) -> list[str]:
    order: list[str] = []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    # Somebody else was there: nobody has the whole loop.
    loop.charge("honest", 0.0, lambda: None)
    assert loop.charge("hostile", debt_s, lambda: order.append("hostile"))

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        order.append("honest")

    with behind_it("honest"):
        await asyncio.create_task(work())
    while not enough(order):
        await asyncio.sleep(0.001)
    return order


def test_who_used_more_than_its_share_rests_while_others_go_on():
    assert run(resting(1000.0, bool)) == ["honest"]


def test_who_rests_goes_on_when_its_share_has_paid_for_what_it_used():
    assert set(run(resting(_BURST_S + 0.02, lambda order: len(order) == 2))) == {"honest", "hostile"}


async def two_that_rest() -> float:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    short = asyncio.Event()
    loop.charge("honest", 0.0, lambda: None)
    # One step of a thousand seconds: it owes what it can owe at most.
    assert loop.charge("long", 1000.0, lambda: None)
    await asyncio.sleep(0)
    began = time.monotonic()
    assert loop.charge("short", _BURST_S + 0.001, short.set)
    await short.wait()
    assert loop._uses["long"].owes_s <= _MOST_OWED_S
    return time.monotonic() - began


def test_a_short_rest_does_not_wait_for_the_end_of_a_longer_one():
    longest_s = (_MOST_OWED_S - _BURST_S) / _LEAST_SHARE
    assert run(two_that_rest()) < longest_s / 2


async def alone() -> bool:
    flood = Flood("only", step_s=0.015)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    while flood.steps < 8:
        await asyncio.sleep(0)
        if loop._later is not None:
            break
    await flood.end()
    return flood.steps >= 8


def test_who_is_alone_has_the_whole_loop():
    assert run(alone())


async def many_principals() -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)

    async def work() -> None:
        await asyncio.sleep(0)

    for number in range(100):
        with behind_it(f"agent {number}"):
            await asyncio.create_task(work())
    while len(loop._uses) > 1:
        with behind_it("last"):
            await asyncio.create_task(work())
        await asyncio.sleep(0.001)
    return len(loop._uses)


def test_nothing_is_kept_of_who_owes_nothing():
    assert run(many_principals()) <= 1


async def failing() -> list[str]:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with behind_it("hostile"):
        failed = asyncio.create_task(fail())
        cancelled = asyncio.create_task(asyncio.sleep(1000))
    await asyncio.sleep(0)
    cancelled.cancel()
    done = await asyncio.gather(failed, cancelled, return_exceptions=True)
    return [type(one).__name__ for one in done]


def test_tasks_fail_and_are_cancelled_as_on_any_loop():
    assert run(failing()) == run(failing(), asyncio.SelectorEventLoop) == ["ValueError", "CancelledError"]


def test_a_token_is_the_principal_whatever_agents_it_names():
    with acting_for("ops", "agent:ops:main"):
        assert PRINCIPAL.get() == "agent ops"
    with behind_it("a-token"), acting_for("invented", "agent:invented:main"):
        assert PRINCIPAL.get() == "a-token"
    with behind_it(OPERATOR), acting_for("ops", "agent:ops:main"):
        assert PRINCIPAL.get() == "agent ops"
    assert PRINCIPAL.get() is None
