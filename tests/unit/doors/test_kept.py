"""What is kept in a state folder: what came or went is seen at once, and little of it is read twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from crabpot.doors import kept as module
from crabpot.doors.kept import Kept
from crabpot.layers.store import LayerStore
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.spares import PREFIX as SPARE
from crabpot.spec.build import build
from tests.support.counted_threads import CountedThreads
from tests.support.waiting import until


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def hold(tmp_path, agent_of, around):
    async def make(name):
        spec = build(agent_of("{}"), f"agent:main:{name}", around)
        (await private_folders.hold(str(tmp_path / "state"), spec, "main")).release()
        return spec.scope_key

    return make


async def test_whoever_looks_often_misses_nothing_that_came_or_went(tmp_path, hold, clock):
    state = str(tmp_path / "state")
    wanted: set[str] = set()
    kept = Kept(state)
    assert kept.known() is None
    assert kept.rows() == {}

    def shown():
        found = kept.known()
        return set(kept.rows() if found is None else found) == wanted

    for number in range(20):
        wanted.add(await hold(number))
        await until(shown)
    layer = LayerStore(state).make(
        scope_key="agent:main:l", session="s", agent="main", folder=str(tmp_path), mechanism="copy"
    )
    wanted.add(layer.scope_key)
    await until(shown)
    private_folders.remove(state, lambda one: one.scope_key == "agent:main:7")
    wanted.remove("agent:main:7")
    await until(shown)
    assert kept.known() == Kept(state).rows()


async def test_a_few_that_came_or_went_are_known_without_reading_all(tmp_path, hold, clock):
    state = str(tmp_path / "state")
    await hold("first")
    kept = Kept(state)
    kept.rows()
    # With the same notes for those that stay, in whatever they would say now.
    first = kept.known()["agent:main:first"]
    await hold("second")
    await until(lambda: len(kept.known()) == 2)
    assert kept.known()["agent:main:first"] is first
    assert kept.known()["agent:main:second"]["agent"] == "main"
    private_folders.remove(state, lambda one: one.scope_key == "agent:main:second")
    await until(lambda: kept.known() == {"agent:main:first": first})
    for number in range(module._MOST_NEW + 1):
        await hold(number)
    await until(lambda: kept.known() is None)


async def test_of_many_all_are_read_after_a_while_and_not_at_every_change(tmp_path, hold, clock, monkeypatch):
    monkeypatch.setattr(module, "_MOST_NAMES", 3)
    for number in range(4):
        await hold(number)
    kept = Kept(str(tmp_path / "state"))
    before = kept.rows()
    await hold("more")
    assert kept.known() is before
    clock.now = module._OLDER_S + 0.1
    assert "agent:main:more" in await kept.now()


async def test_spares_are_not_shown_and_change_nothing(tmp_path, hold, clock):
    folder = Path(tmp_path / "state" / private_folders.FOLDER)
    await hold("first")
    kept = Kept(str(tmp_path / "state"))
    before = kept.rows()
    for number in range(2 * module._MOST_NEW):
        os.mkdir(folder / f"{SPARE}{number}")
        (folder / f"{SPARE}{number}.json").write_text("{}")
        assert kept.known() is before


async def test_all_is_read_again_after_a_while(tmp_path, hold, clock):
    await hold("first")
    kept = Kept(str(tmp_path / "state"))
    kept.rows()
    clock.now = module._OLDER_S + 0.1
    assert kept.known() is None
    assert (await kept.now())["agent:main:first"]["used"] == pytest.approx(time.time(), abs=60)


async def test_who_looks_often_enough_waits_for_no_thread(tmp_path, hold, clock):
    threads = CountedThreads.of_this_loop()
    await hold("first")
    kept = Kept(str(tmp_path / "state"))
    before = kept.rows()
    for _ in range(3):
        assert await kept.now() is before
    assert threads.jobs == 0
    # What is older is read for those who ask next.
    clock.now = module._OLD_S + 0.1
    assert await kept.now() is before
    assert threads.jobs == 1
    await until(lambda: kept._age_s() == 0.0)
    assert await kept.now() == before
    assert threads.jobs == 1
