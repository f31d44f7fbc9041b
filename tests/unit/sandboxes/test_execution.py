"""A call finds its place, its limits and its bytes, and what is lost is told apart from what failed."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import time

import pytest

from crabpot.model import ToolCall
from crabpot.sandboxes.arguments import InvalidCall, split_input, time_limit
from crabpot.sandboxes.streams import Streams
from tests.support.runners import Scripted, Unconfined, answering
from tests.support.waiting import until

S = "agent:main:main"


def call(tool, **args):
    return ToolCall(id="1", session=S, tool=tool, args=args)


# --- time limits --------------------------------------------------------------------------------------------------------


def test_a_call_has_the_agents_time_limit_or_its_own_up_to_the_ceiling(agent_of):
    agent = agent_of("{agents: {defaults: {sandbox: {limits: {timeLimit: 7, timeCeiling: 9}}}}}")
    assert time_limit({}, agent) == time_limit({"timeout": None}, agent) == 7
    assert time_limit({"timeout": 9}, agent) == 9
    assert time_limit({"timeout": 0.5}, agent) == 0.5


@pytest.mark.parametrize("asked", [9.001, 10, 10**400, float("inf")], ids=str)
def test_above_the_ceiling_is_refused_by_the_name_of_the_setting(agent_of, asked):
    agent = agent_of("{agents: {defaults: {sandbox: {limits: {timeLimit: 7, timeCeiling: 9}}}}}")
    with pytest.raises(InvalidCall, match=r"timeCeiling, 9 s \(agents\.defaults\.sandbox\.limits\.timeCeiling\)"):
        time_limit({"timeout": asked}, agent)


@pytest.mark.parametrize("asked", [0, -1, True, False, "5", [], {}, float("nan")], ids=str)
def test_what_is_no_time_is_refused(agent_of, asked):
    with pytest.raises(InvalidCall, match="number of seconds above 0"):
        time_limit({"timeout": asked}, agent_of("{}"))


# --- large input --------------------------------------------------------------------------------------------------------


def beside(source):
    async def collect():
        return b"".join([piece async for piece in source])

    return asyncio.run(collect())


def test_small_texts_travel_in_the_frame():
    args, source = split_input(call("write", path="x", content="small", encoding="utf-8", timeout=5))
    assert args == {"path": "x", "content": "small", "encoding": "utf-8"}
    assert source is None


def test_large_texts_travel_beside_it():
    text = "é" * 100_000
    args, source = split_input(call("write", path="x", content=text, append=True))
    assert args == {"path": "x", "append": True}
    assert beside(source) == text.encode()


def test_large_binary_content_is_decoded_once_and_travels_raw():
    binary = os.urandom(100_000)
    args, source = split_input(call("write", path="x", content=base64.b64encode(binary).decode(), encoding="base64"))
    assert args == {"path": "x"}
    assert beside(source) == binary


def test_the_arguments_of_the_caller_stay_as_they_are():
    given = {"path": "x", "content": "x" * 100_000, "encoding": "utf-8"}
    split_input(ToolCall(id="1", session=S, tool="write", args=given))
    assert set(given) == {"path", "content", "encoding"}


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("\ud800" + "x" * 100_000, None),
        ("!" * 100_000, "base64"),
        ("é" * 100_000, "base64"),
        ("abc" * 50_001, "base64"),
        ("x" * 100_000, "latin-1"),
        ("x" * 100_000, ["base64"]),
    ],
    ids=["surrogate", "no base64", "no ASCII", "no padding", "unknown", "list"],
)
def test_large_content_that_is_none_is_refused(content, encoding):
    with pytest.raises(InvalidCall):
        split_input(call("write", path="x", content=content, encoding=encoding))


@pytest.mark.parametrize("content", [None, 5, [], {}, b"x" * 100_000], ids=str)
def test_what_is_no_text_is_left_to_the_runner_to_refuse(content):
    assert split_input(call("write", path="x", content=content))[1] is None


@pytest.mark.parametrize("value", [10**20, [-(10**20)], {"deep": [{"er": 10**400}]}, float("inf"), [float("nan")]])
def test_a_number_that_would_end_the_runner_is_refused_before(value):
    with pytest.raises(InvalidCall, match="a number in the arguments"):
        split_input(call("exec", command="true", env=value))


# --- over a gateway -----------------------------------------------------------------------------------------------------


async def test_files_of_every_size_come_back_as_they_went(bench):
    async with bench() as made:
        for text in ("", "x", "line\n" * 5, "é" * 40_000, "x" * 300_000, "y" * (1 << 20)):
            result = await made.gateway.call(S, "write", path="f", content=text)
            assert result.success, result
            assert result.data["size"] == len(text.encode())
            result = await made.gateway.call(S, "read", path="f")
            assert result.data["content"] == text
            assert not result.data["truncated"]


async def test_binary_files_of_every_size_come_back_as_they_went(bench):
    async with bench() as made:
        for size in (0, 1, 255, 100_000, 1 << 20):
            text = base64.b64encode(os.urandom(size)).decode()
            result = await made.gateway.call(S, "write", path="f", content=text, encoding="base64")
            assert result.success, result
            result = await made.gateway.call(S, "read", path="f", encoding="base64")
            assert result.data["content"] == text


async def test_a_streamed_read_gives_the_content_to_the_sink_alone(bench):
    taken = bytearray()

    async def keep(stream, data):
        assert stream == "content"
        taken.extend(data)

    async with bench() as made:
        await made.gateway.call(S, "write", path="f", content="x" * (3 << 20))
        result = await made.gateway.call(S, "read", {"path": "f"}, streams=Streams(sink=keep))
        assert len(taken) == 3 << 20
        assert "content" not in result.data


async def test_large_stdin_reaches_the_command(bench):
    async with bench() as made:
        result = await made.gateway.call(S, "exec", command="wc -c", stdin="x" * 500_000)
        assert result.stdout.strip() == "500000"


async def test_a_large_output_is_cut_in_the_middle_and_says_so(bench):
    async with bench() as made:
        result = await made.gateway.call(S, "exec", command="seq 1000000")
        assert result.success
        assert result.truncated
        assert result.stdout.startswith("1\n2\n")
        assert result.stdout.endswith("\n1000000\n")
        assert "bytes cut]" in result.stdout


async def test_the_time_limit_may_be_changed_for_every_tool(bench):
    async with bench() as made:
        assert (await made.gateway.call(S, "ls", timeout=5)).success
        result = await made.gateway.call(S, "exec", command="sleep 1000", timeout=0.1)
        assert (result.error.code, result.place.value) == ("timeout", "sandbox")
        assert "0.1 s" in result.error.message


async def test_a_session_keeps_its_sandbox_and_another_has_its_own(bench):
    async with bench() as made:
        await made.gateway.call(S, "write", path="mine", content="x")
        assert (await made.gateway.call(S, "read", path="mine")).success
        assert (await made.gateway.call("agent:main:other", "read", path="mine")).error.code == "not_found"
        assert len(made.backend.opened) == 2


async def test_what_a_sandbox_wrote_outlives_it(bench):
    async with bench() as made:
        await made.gateway.call(S, "write", path="kept", content="x")
        await made.execution.fleet.stop(made.execution.fleet.listed()[0].key)
        assert (await made.gateway.call(S, "read", path="kept")).data["content"] == "x"
        assert len(made.backend.opened) == 2


async def test_a_lost_sandbox_is_told_apart_from_a_failed_command_and_the_next_call_gets_a_fresh_one(bench):
    async with bench() as made:
        failed = await made.gateway.call(S, "exec", command="exit 3")
        assert (failed.success, failed.exit_code, failed.error) == (False, 3, None)
        lost = await made.gateway.call(S, "exec", command="kill -9 $PPID; sleep 2")
        assert (lost.success, lost.exit_code, lost.error.code) == (False, None, "sandbox_lost")
        assert lost.place.value == "sandbox"
        assert (await made.gateway.call(S, "exec", command="echo on")).stdout == "on\n"
        assert len(made.backend.opened) == 2


async def test_many_calls_lost_at_once_open_one_fresh_sandbox(bench):
    async with bench() as made:
        await made.gateway.call(S, "ls")
        (live,) = made.execution.fleet.listed()
        sleeping = [asyncio.create_task(made.gateway.call(S, "exec", command="sleep 5")) for _ in range(20)]
        await until(lambda: live.wire.busy == 20)
        os.kill(live.wire.ready["pid"], signal.SIGKILL)
        for result in await asyncio.gather(*sleeping):
            assert result.error.code == "sandbox_lost"
        answers = await asyncio.gather(*(made.gateway.call(S, "exec", command="echo on") for _ in range(20)))
        assert {result.stdout for result in answers} == {"on\n"}
        assert len(made.backend.opened) == 2


async def test_ten_thousand_calls_of_one_session_are_refused_by_name_and_another_is_answered(bench):
    async with bench() as made:
        await made.gateway.call(S, "ls")
        (live,) = made.execution.fleet.listed()
        flood = [asyncio.create_task(made.gateway.call(S, "exec", command="sleep 60")) for _ in range(10_000)]
        await until(lambda: sum(task.done() for task in flood) == 10_000 - 256)
        refused = next(task.result() for task in flood if task.done())
        assert refused.error.code == "process_limit"
        assert f"{S} has as many calls under way as it may have" in refused.error.message
        assert live.wire.busy == 256
        assert (await made.gateway.call("agent:other:main", "exec", command="echo on")).stdout == "on\n"
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        assert (await made.gateway.call(S, "exec", command="echo on")).stdout == "on\n"


async def test_the_limit_that_killed_a_sandbox_is_named(bench):
    backend = Unconfined()
    backend.death = ("memory_limit", "the sandbox used more than 2 GiB")
    async with bench(backend=backend) as made:
        result = await made.gateway.call(S, "exec", command="kill -9 $PPID; sleep 2")
        assert (result.error.code, result.place.value) == ("memory_limit", "sandbox")
        assert "2 GiB" in result.error.message


async def test_the_limit_that_killed_a_command_is_named_and_its_exit_code_stays(bench):
    backend = Unconfined()
    async with bench(backend=backend) as made:
        assert (await made.gateway.call(S, "exec", command="kill -9 $$")).error is None
        backend.death = ("memory_limit", "more than 2 GiB")
        result = await made.gateway.call(S, "exec", command="kill -9 $$")
        assert (result.success, result.exit_code, result.error.code) == (False, 137, "memory_limit")
        assert (await made.gateway.call(S, "exec", command="exit 1")).error is None
        assert (await made.gateway.call(S, "exec", command="true")).error is None
        backend.death = ("process_limit", "more than 100 processes")
        result = await made.gateway.call(S, "exec", command="exit 2")
        assert (result.exit_code, result.error.code) == (2, "process_limit")


async def test_a_sandbox_that_cannot_be_made_is_an_answer_and_never_the_host(bench, tmp_path):
    from crabpot.errors import SandboxUnavailable

    class Refusing(Unconfined):
        async def open(self, _spec):
            raise SandboxUnavailable("no user namespaces here")

    async with bench(backend=Refusing()) as made:
        result = await made.gateway.call(S, "exec", command=f"touch {tmp_path}/escaped")
        assert (result.error.code, result.place.value) == ("sandbox_unavailable", "none")
        assert "no user namespaces" in result.error.message
        assert not (tmp_path / "escaped").exists()


async def test_a_machine_that_fails_while_opening_is_an_answer_too(bench):
    class Full(Unconfined):
        async def open(self, _spec):
            raise OSError(24, "Too many open files")

    async with bench(backend=Full()) as made:
        result = await made.gateway.call(S, "ls")
        assert result.error.code == "sandbox_unavailable"
        assert "Too many open files" in result.error.message


async def test_a_state_folder_that_cannot_be_written_is_an_answer(bench, tmp_path):
    async with bench() as made:
        os.makedirs(made.state, exist_ok=True)
        with open(os.path.join(made.state, "sandboxes"), "w"):
            pass
        result = await made.gateway.call(S, "ls")
        assert result.error.code == "sandbox_unavailable"


async def test_a_bind_that_became_a_link_to_what_is_refused_opens_nothing(bench, tmp_path):
    (tmp_path / "ref").mkdir()
    text = f'{{agents: {{defaults: {{workspace: "WS", sandbox: {{binds: ["{tmp_path}/ref:/ref"]}}}}}}}}'
    async with bench(text) as made:
        (tmp_path / "ref").rmdir()
        (tmp_path / "ref").symlink_to("/etc")
        result = await made.gateway.call(S, "ls")
        assert result.error.code == "sandbox_unavailable"
        assert "/etc" in result.error.message
        assert made.backend.opened == []


async def test_a_folder_in_use_is_held_and_let_go_with_its_sandbox(bench):
    from crabpot.sandboxes import private_folders

    async with bench() as made:
        await made.gateway.call(S, "write", path="x", content="y")
        assert private_folders.remove(made.state, lambda _: True) == []
        await made.execution.fleet.stop(made.execution.fleet.listed()[0].key)
        assert len(private_folders.remove(made.state, lambda _: True)) == 1


async def test_the_sandboxes_that_can_write_a_folder_can_be_frozen(bench):
    backend = Scripted(answering)
    async with bench(backend=backend) as made:
        assert (await made.gateway.call(S, "exec", command="true")).success
        double = backend.opened[0]
        async with made.execution.fleet.frozen(lambda live: live.can_reach(made.state)):
            assert double.frozen == [True]
        assert double.frozen == [True, False]
        async with made.execution.fleet.frozen(lambda live: live.can_reach("/nowhere")):
            pass
        assert double.frozen == [True, False]


async def test_a_folder_is_let_go_when_its_sandbox_does_not_open(bench):
    from crabpot.sandboxes import private_folders

    class Failing(Unconfined):
        async def open(self, _spec):
            raise RuntimeError("a fault of the backend")

    async with bench(backend=Failing()) as made:
        with pytest.raises(RuntimeError):
            await made.gateway.call(S, "ls")
        assert os.listdir(os.path.join(made.state, private_folders.FOLDER)) == []


async def test_a_sandbox_whose_runner_never_answers_is_not_listed(bench):
    from crabpot.sandboxes import private_folders

    def hang_up(peer):
        peer.take("hello")
        peer.sock.close()

    async with bench(backend=Scripted(hang_up)) as made:
        result = await made.gateway.call(S, "ls")
        assert result.error.code == "sandbox_unavailable"
        assert list(private_folders.listed(made.state)) == []
        assert os.listdir(os.path.join(made.state, private_folders.FOLDER)) == []


async def test_files_of_an_earlier_sandbox_stay_listed_when_the_next_does_not_open(bench):
    from crabpot.errors import SandboxUnavailable
    from crabpot.sandboxes import private_folders

    class Once(Unconfined):
        async def open(self, spec):
            if self.opened:
                raise SandboxUnavailable("not again")
            return await super().open(spec)

    async with bench(backend=Once()) as made:
        assert (await made.gateway.call(S, "write", path="x", content="y")).success
        await made.execution.fleet.stop(made.execution.fleet.listed()[0].key)
        assert (await made.gateway.call(S, "ls")).error.code == "sandbox_unavailable"
        (kept,) = private_folders.listed(made.state)
        assert os.listdir(kept.folder) == ["x"]


async def test_reaping_ends_the_idle_and_the_old_by_their_agents_settings(bench):
    text = (
        '{agents: {defaults: {workspace: "WS", sandbox: {prune: {idleHours: 1, maxAgeDays: 2}}},'
        " entries: {ops: {sandbox: {prune: {idleHours: 100, maxAgeDays: 100}}}}}}"
    )
    async with bench(text) as made:
        await asyncio.gather(*(made.gateway.call(f"agent:{agent}:main", "ls") for agent in ("main", "ops")))
        fleet, now = made.execution.fleet, time.time()
        await made.execution.reap(now + 60)
        assert len(fleet.listed()) == 2
        await made.execution.reap(now + 3601 + 60)
        assert [live.key[1] for live in fleet.listed()] == ["agent:ops:main"]
        await made.execution.reap(now + 101 * 86400)
        assert fleet.listed() == []


async def test_a_long_call_counts_as_use_until_it_ends(bench):
    async with bench() as made:
        await made.gateway.call(S, "ls")
        (live,) = made.execution.fleet.listed()
        live.used = 0
        await made.gateway.call(S, "exec", command="true")
        assert time.time() - live.used < 60


async def test_a_gateway_does_not_remember_every_session_for_ever(bench, agent_of):
    async with bench() as made:
        agent = agent_of("{}")
        for number in range(10_000):
            made.execution.describe(agent, f"agent:main:{number}")
        assert len(made.execution._wanted) <= 4096


async def test_on_the_host_each_agent_has_a_runner_of_its_own_in_its_workspace(bench):
    text = '{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}}, entries: {ops: {workspace: "WS/../ops"}}}}'
    async with bench(text) as made:
        first = await made.gateway.call(S, "exec", command="pwd")
        second = await made.gateway.call("agent:ops:main", "exec", command="pwd")
        assert first.stdout == f"{made.workspace}\n"
        assert second.stdout == f"{made.folder / 'ops'}\n"
        assert first.place.value == second.place.value == "host"
        assert made.backend.opened == []
