"""How many sandboxes there may be: who goes for another, and who is refused."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest

from crabpot.errors import SandboxUnavailable
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.capacity import most_folders, to_evict
from crabpot.settings import Gateway
from tests.support.waiting import until

LIMITS = Gateway(max_sandboxes=6, max_sandboxes_per_agent=3)


def crowd(text):
    """Read `a1 a2! b3` as sandboxes of agents, each with when it was used; `!` is busy."""
    words = text.split()
    return [SimpleNamespace(agent=word[0], used=int(word[1:].rstrip("!")), idle="!" not in word) for word in words]


@pytest.mark.parametrize(
    ("there", "goes"),
    [
        ("", None),
        ("a1 a2", None),
        ("a2 a1 a3", "a1"),
        ("a1! a2 a3", "a2"),
        ("b1 a2 a3 a4", "a2"),
        # All there may be, of several: whoever has the most loses the one it used longest ago.
        ("b4 b5 b6 c1 c2 d3", "b4"),
        ("b4! b5! b6 c1 c2 d3", "b6"),
        ("b4! b5! b6! c2 c1 d0", "c1"),
        ("a1 a2 b3 c4 d5 e6", "a1"),
    ],
)
def test_the_least_recently_used_idle_one_goes(there, goes):
    found = to_evict("a", crowd(there), [], LIMITS)
    assert (found and f"{found.agent}{found.used}") == goes


def test_those_that_are_being_opened_count_and_cannot_go():
    assert to_evict("a", crowd("a1"), ["a"], LIMITS) is None
    assert to_evict("a", crowd("a1"), ["a", "a"], LIMITS).used == 1
    with pytest.raises(SandboxUnavailable, match="maxSandboxesPerAgent"):
        to_evict("a", [], ["a", "a", "a"], LIMITS)
    with pytest.raises(SandboxUnavailable, match="maxSandboxes"):
        to_evict("a", [], ["b", "b", "b", "c", "c", "c"], LIMITS)


@pytest.mark.parametrize(
    ("there", "setting"),
    [("a1! a2! a3! b4", "maxSandboxesPerAgent"), ("b1! b2! b3! c4! c5! d6!", "maxSandboxes\\)")],
)
def test_where_none_is_idle_the_refusal_names_the_setting_and_the_way_out(there, setting):
    with pytest.raises(SandboxUnavailable, match=rf"gateway\.{setting}.*crabpot sandboxes stop"):
        to_evict("a", crowd(there), [], LIMITS)


def test_an_agent_that_keeps_its_own_busy_takes_none_of_one_that_has_no_more():
    with pytest.raises(SandboxUnavailable, match="maxSandboxes"):
        to_evict("a", crowd("a1! a2! b3 b4 c5 d6"), [], LIMITS)
    assert to_evict("a", crowd("a1! a2! b3 b4 b5 d6"), [], LIMITS).used == 3
    assert to_evict("d", crowd("a1! a2! b3 b4 c5 c6"), [], LIMITS).used == 3


FEW = """{agents: {defaults: {workspace: "WS", sandbox: {mode: "all"}}},
          gateway: {maxSandboxes: 4, maxSandboxesPerAgent: 3}}"""


def living(made):
    return sorted(live.key[1] for live in made.execution.fleet.listed())


async def test_sixty_sessions_of_one_agent_are_never_more_than_it_may_have(bench):
    async with bench(FEW) as made:
        for number in range(60):
            assert (await made.gateway.call(f"agent:ops:{number}", "ls")).success
            assert len(living(made)) <= 3
        assert living(made) == ["agent:ops:57", "agent:ops:58", "agent:ops:59"]
        # Its files stayed: what went was the sandbox around them.
        await made.gateway.call("agent:ops:0", "write", path="kept", content="x")
        for number in range(10):
            await made.gateway.call(f"agent:ops:{number}", "ls")
        assert (await made.gateway.call("agent:ops:0", "read", path="kept")).data["content"] == "x"


async def test_sixty_at_once_are_never_more_either(bench):
    async with bench(FEW) as made:
        calls = (made.gateway.call(f"agent:ops:{number}", "exec", command="echo in") for number in range(60))
        results = await asyncio.gather(*calls)
        assert {result.stdout or result.error.code for result in results} <= {"in\n", "sandbox_unavailable"}
        assert any(result.success for result in results)
        assert len(living(made)) <= 3
        assert (await made.gateway.call("agent:other:1", "ls")).success


async def test_what_runs_keeps_its_sandbox_and_the_next_session_is_refused(bench):
    async with bench(FEW) as made:
        for number in range(3):
            started = await made.gateway.call(f"agent:ops:{number}", "exec", command="sleep 1000", background=True)
            assert started.success
        refused = await made.gateway.call("agent:ops:3", "ls")
        assert (refused.error.code, refused.place.value) == ("sandbox_unavailable", "none")
        assert "gateway.maxSandboxesPerAgent" in refused.error.message
        assert (await made.gateway.call("agent:ops:1", "ls")).success
        # Another agent has what is left, and then what it has itself.
        assert (await made.gateway.call("agent:other:1", "ls")).success
        assert (await made.gateway.call("agent:other:2", "ls")).success
        assert living(made) == ["agent:ops:0", "agent:ops:1", "agent:ops:2", "agent:other:2"]


async def test_an_agent_that_opens_all_it_can_keeps_nobody_else_out(bench):
    text = FEW.replace("maxSandboxesPerAgent: 3", "maxSandboxesPerAgent: 4")
    async with bench(text) as made:
        for number in range(4):
            assert (await made.gateway.call(f"agent:ops:{number}", "ls")).success
        for number in range(2):
            assert (await made.gateway.call(f"agent:other:{number}", "ls")).success
        assert living(made) == ["agent:ops:2", "agent:ops:3", "agent:other:0", "agent:other:1"]


async def test_a_session_on_the_host_takes_no_place(bench):
    text = FEW.replace('"all"', '"non-main"').replace("maxSandboxes: 4, maxSandboxesPerAgent: 3", "maxSandboxes: 1")
    async with bench(text) as made:
        assert (await made.gateway.call("agent:ops:1", "ls")).success
        assert (await made.gateway.call("agent:ops:main", "ls")).place.value == "host"
        assert len(living(made)) == 2


def entries(made):
    return sorted(os.listdir(os.path.join(made.execution.around.state, "sandboxes")))


async def test_session_names_in_which_nothing_is_written_leave_nothing(bench):
    async with bench(FEW) as made:
        for number in range(60):
            assert (await made.gateway.call(f"agent:ops:{number}", "ls")).success
        await until(lambda: len(entries(made)) == 2 * 3)


async def test_an_agent_has_the_files_of_so_many_sessions_and_loses_none_for_another(bench):
    most = most_folders(Gateway(max_sandboxes_per_agent=3))
    async with bench(FEW) as made:
        for number in range(most):
            written = await made.gateway.call(f"agent:ops:{number}", "write", path="kept", content=str(number))
            assert written.success, written
        refused = await made.gateway.call("agent:ops:more", "write", path="kept", content="x")
        assert refused.error.code == "sandbox_unavailable"
        for word in ("agent ops", f"files of {most} sessions", "crabpot sandboxes prune", "maxSandboxesPerAgent"):
            assert word in refused.error.message
        assert len(entries(made)) == 2 * most
        for number in (0, most - 1):
            assert (await made.gateway.call(f"agent:ops:{number}", "read", path="kept")).data["content"] == str(number)
        assert (await made.gateway.call("agent:other:1", "write", path="kept", content="x")).success
        # Room that is made is found within a moment.
        private_folders.remove(made.execution.around.state, lambda kept: kept.scope_key == "agent:ops:5")

        async def has_room():
            return (await made.gateway.call("agent:ops:more", "ls")).success

        await until(has_room)


async def test_layers_of_folders_under_review_count_like_private_folders(bench, tmp_path):
    (tmp_path / "ws").mkdir()
    text = FEW.replace("mode:", 'workspace: "review", mode:').replace(
        "maxSandboxesPerAgent: 3", "maxSandboxesPerAgent: 1"
    )
    most = most_folders(Gateway(max_sandboxes_per_agent=1))
    async with bench(text) as made:
        for number in range(most):
            assert (await made.gateway.call(f"agent:ops:{number}", "ls")).success
        refused = await made.gateway.call("agent:ops:more", "ls")
        assert f"files of {most} sessions" in refused.error.message
        assert (await made.gateway.call("agent:ops:0", "ls")).success
        assert (await made.gateway.call("agent:other:0", "ls")).success


async def test_the_files_of_an_earlier_gateway_count_and_so_do_those_of_a_waiting_sandbox(bench):
    most = most_folders(Gateway(max_sandboxes_per_agent=3))
    async with bench(FEW) as made:
        for number in range(most):
            await made.gateway.call(f"agent:ops:{number}", "write", path="kept", content="x")
    warm = FEW.replace("mode:", "warm: 1, mode:")
    async with bench(warm) as made:
        made.execution.warm_up(made.gateway.settings)
        assert not (await made.gateway.call("agent:ops:more", "ls")).success
        assert (await made.gateway.call("agent:ops:0", "ls")).success
        assert (await made.gateway.call("agent:other:1", "ls")).success
