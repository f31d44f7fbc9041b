"""The loop's time: whoever keeps it busy waits for itself, and neither another principal nor an operator waits for it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio._backends._asyncio import CancelScope

from crabpot.decide.scope import OPERATOR, PRINCIPAL, acting_for, behind_it
from crabpot.scheduling.fair_loop import _EVERY_S, FairLoop
from crabpot.scheduling.use import BURST_S, MOST_OWED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

MANY, STEP_S = 40, 0.001


def run(work: Coroutine[Any, Any, Any], loop: Callable[[], asyncio.AbstractEventLoop] = FairLoop) -> Any:
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(work)


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Flood:
    """A principal with many tasks, none of which ever waits for anything."""

    def __init__(self, name: str, step_s: float = STEP_S) -> None:
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


def fair() -> FairLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    return loop


async def heavy(loop: FairLoop, *names: str) -> list[Flood]:
    """Start principals that keep the loop busy, and wait until it has seen that they do, and nobody else is active."""
    floods = [Flood(name) for name in names]
    while not all(name in loop._uses and loop._uses[name].heavy for name in names):
        await asyncio.sleep(0)
    while loop._is_under_way(loop._now()):
        await asyncio.sleep(0)
    return floods


async def turns_used(count: int, beside: str | None) -> tuple[int, list[int]]:
    """Return in how many of so many turns a heavy principal ran, and the steps of each; somebody is active, or nobody."""
    floods = await heavy(fair(), *(f"busy {number}" for number in range(count)))
    used, before = 0, [flood.steps for flood in floods]

    async def count_turns() -> None:
        nonlocal used
        for _ in range(300):
            seen = sum(flood.steps for flood in floods)
            await asyncio.sleep(0)
            used += sum(flood.steps for flood in floods) > seen

    with behind_it(beside):
        await asyncio.create_task(count_turns())
    steps = [flood.steps - one for flood, one in zip(floods, before, strict=True)]
    for flood in floods:
        await flood.end()
    return used, steps


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_busy_ones_have_all_turns_while_nobody_else_does_anything(count):
    used, steps = run(turns_used(count, None))
    assert used >= 0.9 * 300
    # Each its part of them.
    assert min(steps) >= 0.8 * 300 / count


@pytest.mark.parametrize("name", ["honest", OPERATOR])
def test_the_busy_ones_have_few_turns_together_while_somebody_else_has_something_under_way(name):
    used, _ = run(turns_used(2, name))
    # Turns of somebody who does nothing are shorter than the part of them that a step of a millisecond takes.
    assert used <= 0.1 * 300


async def share_beside_calls(pause_s: float) -> float:
    """Return which part of the loop's time a heavy principal has while somebody comes back after each pause."""
    loop = fair()
    (flood,) = await heavy(loop, "hostile")

    async def call_now_and_then() -> float:
        began, before = loop._now(), flood.steps
        for _ in range(5):
            await asyncio.sleep(pause_s)
        return (flood.steps - before) * STEP_S / (loop._now() - began)

    with behind_it("honest"):
        share = await asyncio.create_task(call_now_and_then())
    await flood.end()
    return share


def test_who_comes_back_soon_finds_the_loop_free():
    assert run(share_beside_calls(0.2)) < 0.3


async def first_steps() -> list[str]:
    """Return the order of the steps of one that is heavy and of others that come and go."""
    order: list[str] = []
    (flood,) = await heavy(fair(), "hostile")

    async def work(name: str) -> None:
        for _ in range(3):
            before = flood.steps
            await asyncio.sleep(0)
            order.append("in between" if flood.steps > before + 1 else name)

    for number in range(20):
        with behind_it(f"agent {number}"):
            await asyncio.create_task(work("next"))
    await flood.end()
    assert len(order) == 60
    return order


def test_nobody_waits_for_more_than_one_step_of_one_that_is_heavy():
    assert set(run(first_steps())) == {"next"}


@pytest.mark.parametrize("name", [None, "honest", OPERATOR])
def test_a_step_comes_after_the_callbacks_that_were_wanted_before_it(name):
    # As when a program is started: a transport wants its protocol called first, and then wakes who waits for it.
    async def order() -> list[str]:
        seen: list[str] = []
        loop, made = asyncio.get_running_loop(), asyncio.Event()

        async def waits() -> None:
            await made.wait()
            seen.append("who waits")

        async def makes() -> None:
            loop.call_soon(seen.append, "the protocol")
            made.set()

        with behind_it(name):
            await asyncio.gather(waits(), makes())
        return seen

    assert run(order()) == ["the protocol", "who waits"]


async def resting(debt_s: float, enough: Callable[[list[str]], bool]) -> list[str]:
    order: list[str] = []
    loop = fair()
    # Somebody else has something under way: nobody has the whole loop.
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


def test_who_is_heavy_rests_while_others_go_on():
    assert run(resting(1000.0, bool)) == ["honest"]


def test_who_rests_goes_on_when_nobody_else_has_anything_under_way():
    assert run(resting(1000.0, lambda order: len(order) == 2)) == ["honest", "hostile"]


async def read_in_one_turn(streams: int) -> int:
    loop, reads = fair(), 0

    def read() -> None:
        nonlocal reads
        reads += 1

    assert loop.charge("hostile", 1000.0, read)
    for _ in range(streams):
        assert loop.charge("hostile", 0.0, read)
    while not reads:
        await asyncio.sleep(0)
    return reads


def test_the_streams_of_one_that_is_heavy_are_read_one_in_a_turn():
    assert run(read_in_one_turn(40)) == 1


async def reads_and_steps() -> int:
    loop = fair()
    (flood,) = await heavy(loop, "hostile")
    before = flood.steps
    # Each reading is followed by the next.
    reads = 0

    def read() -> None:
        nonlocal reads
        reads += 1
        loop.charge("hostile", 0.001, read)

    read()
    while reads < 20:
        await asyncio.sleep(0)
    await flood.end()
    return flood.steps - before


def test_what_is_read_does_not_keep_the_tasks_of_the_same_principal_waiting():
    assert run(reads_and_steps()) >= 10


async def owed_after(seconds: float) -> float:
    loop = fair()
    loop.charge("hostile", seconds, lambda: None)
    return loop._uses["hostile"].owes_s


def test_one_long_step_counts_for_a_second_and_not_for_a_minute():
    assert run(owed_after(BURST_S / 2)) == BURST_S / 2
    assert run(owed_after(1000.0)) == MOST_OWED_S


async def calm_again() -> bool:
    loop = fair()
    assert loop.charge("busy", 1000.0, lambda: None)
    while "busy" in loop._uses and loop._uses["busy"].heavy:
        await asyncio.sleep(0.01)
        loop._use("other")
    return not loop.charge("busy", 0.0, lambda: None)


def test_who_was_busy_and_needs_nothing_for_a_while_is_heavy_no_more():
    assert run(calm_again())


async def many_principals() -> int:
    loop = fair()

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


async def after_a_long_step() -> bool:
    async def work() -> None:
        burn(2 * _EVERY_S)
        # It has used nothing that was counted yet, and waits for nothing while it runs.
        await asyncio.sleep(0)

    with behind_it("anyone"):
        task = asyncio.create_task(work())
    await asyncio.wait({task}, timeout=10)
    in_time = task.done()
    # A step that was forgotten runs with the next one.
    with behind_it("anyone"):
        await asyncio.gather(task, asyncio.create_task(asyncio.sleep(0)))
    return in_time


def test_the_step_after_a_long_one_is_not_forgotten():
    assert run(after_a_long_step())


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


def test_whoever_waits_for_what_it_cancelled_does_not_keep_the_loop_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[CancelScope] = []
    plain = CancelScope._deliver_cancellation

    def counted(scope: CancelScope, origin: CancelScope) -> bool:
        looks.append(scope)
        return plain(scope, origin)

    async def waits(scopes: list[anyio.CancelScope]) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await anyio.sleep_forever()

    async def both() -> None:
        scopes: list[anyio.CancelScope] = []
        flood = Flood("a token")
        with behind_it("a token"):
            waiting = asyncio.create_task(waits(scopes))
        await steps_beside(flood, 10)
        with behind_it("a token"):
            scopes[0].cancel()
        assert looks
        with behind_it(OPERATOR):
            for _ in range(MANY):
                await asyncio.sleep(0)
        assert len(looks) < MANY / 4
        await flood.end()
        await waiting

    monkeypatch.setattr(CancelScope, "_deliver_cancellation", counted)
    run(both())
