"""How many private folders an agent has: no opening pays for the count, and no flood is faster than it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from crabpot.errors import SandboxUnavailable
from crabpot.sandboxes import folder_counts, private_folders
from crabpot.sandboxes.folder_counts import FolderCounts
from crabpot.spec.build import build
from tests.support.counted_threads import CountedThreads

MOST = 5


@pytest.fixture
def state(tmp_path):
    return str(tmp_path / "state")


@pytest.fixture
def spec_of(agent_of, around, state):
    own = replace(around, state=state)
    return lambda number, agent="ops": build(agent_of("{}"), f"agent:{agent}:{number}", own)


@pytest.fixture
def leave(state, spec_of):
    async def make(number, agent="ops"):
        spec = spec_of(number, agent)
        held = await private_folders.hold(state, spec, agent)
        os.makedirs(spec.workspace, exist_ok=True)
        with open(f"{spec.workspace}/file", "w") as file:
            file.write("x")
        held.release()
        return spec

    return make


async def admit(counts, spec, agent="ops"):
    if not counts.takes(agent, MOST):
        await counts.check(spec, agent, MOST)


async def test_names_that_leave_nothing_are_admitted_however_fast_they_come(state, spec_of):
    counts = FolderCounts(state)
    for number in range(40 * MOST):
        await admit(counts, spec_of(number))


async def test_one_more_than_there_may_be_is_refused_and_those_that_are_there_go_on(state, spec_of, leave):
    kept = [await leave(number) for number in range(MOST)]
    for counts in (FolderCounts(state), FolderCounts(state)):
        for _ in range(3):
            with pytest.raises(SandboxUnavailable, match="crabpot sandboxes prune"):
                await admit(counts, spec_of("more"))
            for spec in kept:
                await admit(counts, spec)


async def test_others_folders_keep_nobody_out(state, spec_of, leave):
    for number in range(3 * MOST):
        await leave(number, f"agent-{number % 3}")
    counts = FolderCounts(state)
    for number in range(3 * MOST):
        await admit(counts, spec_of(number))


async def test_who_is_refused_again_and_again_has_the_notes_read_once_a_second(state, spec_of, leave, monkeypatch):
    for number in range(MOST):
        await leave(number)
    monkeypatch.setattr(folder_counts, "_AGAIN_S", 3600.0)
    counts, threads = FolderCounts(state), CountedThreads.of_this_loop()
    for _ in range(50):
        with pytest.raises(SandboxUnavailable):
            await admit(counts, spec_of("more"))
    assert threads.jobs == 1
    private_folders.remove(state, lambda kept: kept.scope_key == "agent:ops:0")
    monkeypatch.setattr(folder_counts, "_AGAIN_S", 0.0)
    await admit(counts, spec_of("more"))


async def test_agents_that_a_token_invents_do_not_fill_the_memory(state, spec_of, monkeypatch):
    monkeypatch.setattr(folder_counts, "_MOST_AGENTS", 10)
    counts = FolderCounts(state)
    for number in range(100):
        await admit(counts, spec_of("x", f"a{number}"), f"a{number}")
    assert len(counts._counts) <= 10
