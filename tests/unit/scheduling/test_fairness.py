"""Turns: in order, given back, and never all to one agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabpot.decide.scope import Account, acting_for
from crabpot.scheduling.fairness import Allowance, Line, Slots
from tests.support.waiting import until


@pytest.fixture
def slots():
    return Slots(Allowance(scope=2, agent=3, agents=4, own=1))


async def hold(slots, agent, scope, inside, ending):
    with acting_for(agent, scope):
        async with slots.taken():
            inside.append((agent, scope))
            await ending.wait()


async def test_each_has_its_own_room_and_what_is_beyond_waits(slots):
    inside: list[Any] = []
    ending = asyncio.Event()
    tasks = [asyncio.create_task(hold(slots, "a", f"s{n % 2}", inside, ending)) for n in range(10)]
    tasks += [asyncio.create_task(hold(slots, "b", "s", inside, ending)) for _ in range(10)]
    await until(lambda: len(inside) == 4)
    assert [agent for agent, _ in inside] == ["a", "a", "a", "b"]
    ending.set()
    await asyncio.gather(*tasks)
    assert len(inside) == 20
    assert not slots._line.inside
    assert not slots._line.waiting


async def test_who_gives_up_waiting_takes_no_turn_along(slots):
    inside: list[Any] = []
    ending = asyncio.Event()
    tasks = [asyncio.create_task(hold(slots, "a", "s", inside, ending)) for _ in range(6)]
    await until(lambda: len(inside) == 2)
    for task in tasks[1:5]:
        task.cancel()
    await until(lambda: len(inside) == 3)
    ending.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not slots._line.inside
    assert not slots._line.waiting


def test_who_is_refused_is_told_who_has_the_room_and_takes_none():
    line: Line[Any] = Line(Allowance(scope=2, agent=3, agents=4, own=1))
    one, two = Account("a", "one"), Account("a", "two")
    assert [line.enter(whose) for whose in (one, one, one, two, two)] == [None, None, "one", None, "the agent a"]
    others = [Account("b", "one"), Account("c", "one")]
    assert [line.enter(whose) for whose in others] == [None, "all agents together"]
    assert [line.enter(None), line.enter(None)] == [None, "the gateway"]
    line.leave(one)
    assert [line.enter(two), line.enter(one)] == [None, "all agents together"]
    for whose in (one, two, two, others[0], None):
        line.leave(whose)
    assert line == Line(line.allowed), "nothing is kept of whoever left"


def test_no_name_of_an_agent_is_counted_as_something_else():
    line: Line[Any] = Line(Allowance(scope=9, agent=1, agents=9, own=9))
    assert line.enter(Account("main", "s")) is None
    assert line.enter(Account("agents", "s")) is None
