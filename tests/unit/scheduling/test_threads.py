"""Threads by allowance: who fills theirs waits alone."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from crabpot.decide.scope import acting_for
from crabpot.scheduling.fairness import Allowance
from crabpot.scheduling.threads import FairThreads
from tests.support.waiting import until


@pytest.fixture
def stuck():
    """What never comes to an end while the test lasts."""
    ending = threading.Event()
    yield ending
    ending.set()


@pytest.fixture
def threads():
    made = FairThreads(Allowance(scope=2, agent=4, agents=8, own=2))
    yield made
    made.shutdown(wait=False)


async def fill(agent, scope, work, count=200):
    with acting_for(agent, scope):
        jobs = [asyncio.ensure_future(asyncio.to_thread(work)) for _ in range(count)]
    await asyncio.sleep(0)  # All of them have been handed over.
    return jobs


def withdraw(jobs, stuck=None):
    for job in jobs:
        job.cancel()
    if stuck is not None:
        stuck.set()


async def test_one_scope_that_blocks_every_thread_it_gets_delays_nobody_else(stuck):
    loop = asyncio.get_running_loop()
    loop.set_default_executor(FairThreads())
    jobs = await fill("hostile", "agent:hostile:one", stuck.wait)
    async with asyncio.timeout(10):
        with acting_for("other", "agent:other:main"):
            assert await asyncio.to_thread(os.getpid) == os.getpid()
        with acting_for("hostile", "agent:hostile:two"):
            assert await asyncio.to_thread(os.getpid) == os.getpid()
        assert await asyncio.to_thread(os.getpid) == os.getpid()
    withdraw(jobs, stuck)


async def test_a_fifo_that_a_thread_waits_for_is_the_trouble_of_its_own_scope(tmp_path):
    os.mkfifo(tmp_path / "alternates")
    asyncio.get_running_loop().set_default_executor(FairThreads())
    jobs = await fill("hostile", "one", lambda: os.close(os.open(tmp_path / "alternates", os.O_RDONLY)))
    with acting_for("other", "two"):
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(os.getpid) == os.getpid()
    withdraw(jobs)
    await asyncio.gather(*jobs, return_exceptions=True)
    os.close(os.open(tmp_path / "alternates", os.O_WRONLY | os.O_NONBLOCK))


async def test_many_scopes_of_one_agent_are_that_agent_still(threads, stuck):
    asyncio.get_running_loop().set_default_executor(threads)
    jobs = [job for number in range(50) for job in await fill("hostile", f"s{number}", stuck.wait, 4)]
    with acting_for("other", "x"):
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(os.getpid) == os.getpid()
    assert threads._line.of_agents["hostile"] == 4
    withdraw(jobs, stuck)


async def test_every_agent_at_once_leaves_threads_for_the_gateway_itself(threads, stuck):
    asyncio.get_running_loop().set_default_executor(threads)
    jobs = [job for number in range(20) for job in await fill(f"a{number}", "s", stuck.wait, 4)]
    async with asyncio.timeout(10):
        assert await asyncio.to_thread(os.getpid) == os.getpid()
    assert threads._line.of_all == 8
    withdraw(jobs, stuck)


async def test_those_who_wait_are_served_in_turn(threads):
    """A line of a thousand does not stand before a line of one."""
    gate, served = threading.Event(), []
    loop = asyncio.get_running_loop()
    loop.set_default_executor(threads)
    holding = [job for agent in "abcd" for job in await fill(agent, "s", gate.wait, 2)]
    long = await fill("long", "s", lambda: served.append("long"), 1000)
    short = await fill("short", "s", lambda: served.append("short"), 1)
    gate.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*holding, *long, *short)
    assert served.index("short") < 20
    assert len(served) == 1001


async def test_all_is_done_and_failures_come_back(threads):
    asyncio.get_running_loop().set_default_executor(threads)
    with acting_for("a", "s"):
        done = await asyncio.gather(*(asyncio.to_thread(pow, 2, number) for number in range(500)))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
    assert done == [2**number for number in range(500)]
    # A thread returns its place after it has handed over the answer.
    await until(lambda: not threads._line.inside)
    assert not threads._line.waiting


async def test_what_nobody_waits_for_any_more_is_not_begun(threads):
    begun = []
    asyncio.get_running_loop().set_default_executor(threads)
    gate = threading.Event()
    holding = await fill("a", "s", gate.wait, 2)
    jobs = await fill("a", "s", lambda: begun.append(1), 50)
    withdraw(jobs)
    await asyncio.gather(*jobs, return_exceptions=True)
    gate.set()
    await asyncio.gather(*holding)
    with acting_for("a", "s"):
        await asyncio.to_thread(os.getpid)
    assert begun == []


def test_an_end_waits_for_work_and_not_for_what_is_stuck(stuck):
    threads = FairThreads()
    done = threads.submit(os.getpid)
    never = [threads.submit(stuck.wait) for _ in range(40)]
    threads.shutdown()
    assert done.result(0) == os.getpid()
    # One less was begun if the first job still had its place when the end came.
    assert sum(one.cancelled() for one in never) in (40 - 16, 40 - 15)
    with pytest.raises(RuntimeError, match="ended"):
        threads.submit(os.getpid)
