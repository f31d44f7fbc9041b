"""While a command runs on the host nothing moves in the sandboxes that could trick it, and afterwards all go on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from crabpot.errors import SandboxUnavailable
from crabpot.model import Place
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.freezing import Freeze
from crabpot.sandboxes.live import Wanted
from crabpot.sandboxes.opening import connect
from crabpot.settings import AgentSettings
from tests.support.runners import Double, answering
from tests.support.specs import make_spec
from tests.support.waiting import until

ONE, TWO = ((Place.SANDBOX, f"agent:main:{name}") for name in ("one", "two"))


async def live_at(fleet, double, key=ONE, version="v1", **timing):
    async def open_(wanted):
        return await connect(wanted, double, **timing)

    return await fleet.acquire(Wanted(key=key, version=version, agent=AgentSettings(id="main")), open_)


async def test_only_those_that_are_named_stand_still_and_all_go_on():
    fleet, one, two = Fleet(), Double(answering), Double(answering)
    await live_at(fleet, one)
    await live_at(fleet, two, TWO)
    async with fleet.frozen(lambda live: live.key == ONE):
        assert (one.frozen, two.frozen) == ([True], [])
    assert one.frozen == [True, False]
    await fleet.close()


async def test_two_freezes_of_one_sandbox_thaw_it_once_when_both_are_over():
    fleet, one = Fleet(), Double(answering)
    await live_at(fleet, one)
    async with fleet.frozen(lambda _: True):
        async with fleet.frozen(lambda _: True):
            assert one.frozen == [True]
        assert one.frozen == [True]
    assert one.frozen == [True, False]
    await fleet.close()


async def test_one_that_opens_meanwhile_is_frozen_before_its_first_call():
    fleet, one = Fleet(), Double(answering)
    async with fleet.frozen(lambda _: True):
        live = await live_at(fleet, one)
        assert one.frozen == [True]
    assert one.frozen == [True, False]
    assert (await live.wire.call("exec", {}, timeout_s=5)).success
    await fleet.close()


async def test_one_that_cannot_be_frozen_is_ended():
    fleet, one, late = Fleet(), Double(answering), Double(answering)
    one.unfreezable = late.unfreezable = True
    live = await live_at(fleet, one)
    async with fleet.frozen(lambda _: True):
        assert live.lost
        assert one.closed
        with pytest.raises(SandboxUnavailable, match="could not be frozen"):
            await live_at(fleet, late, TWO)
        assert late.closed
    assert fleet.listed() == []
    await fleet.close()


async def test_one_that_was_replaced_and_is_still_busy_is_frozen_too():
    fleet, old, new = Fleet(), Double(lambda peer: peer.greet()), Double(answering)
    live = await live_at(fleet, old)
    call = asyncio.create_task(live.wire.call("exec", {}, timeout_s=60))
    await until(lambda: live.wire.busy)
    await live_at(fleet, new, version="v2")
    async with fleet.frozen(lambda _: True):
        assert (old.frozen, new.frozen) == ([True], [True])
    await fleet.close()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_freeze_that_is_cancelled_thaws():
    fleet, one = Fleet(), Double(answering)
    await live_at(fleet, one)

    async def wait():
        async with fleet.frozen(lambda _: True):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await until(lambda: one.frozen)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.frozen == [True, False]
    await fleet.close()


async def test_one_that_cannot_be_thawed_is_ended_even_if_its_own_host_command_froze_it():
    def script(peer):
        peer.greet()
        wired.wait(60)
        peer.send({"op": "upcall", "up": "1", "kind": "run"}, b"question")

    async def run(_upcall):
        async with fleet.frozen(lambda _: True):
            live.wire.lose("it was closed")
            # The end of a command takes a moment, and the cancellation is spent on it.
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    wired = threading.Event()
    fleet, one = Fleet(), Double(script)
    one.unthawable = True
    live = await live_at(fleet, one)
    live.wire.upcalls.answers = {"run": run}
    wired.set()
    await until(lambda: one.closed)
    assert live.lost
    assert fleet.listed() == []
    await fleet.close()


async def test_no_answer_is_late_while_its_sandbox_stands_still():
    def script(peer):
        peer.greet()
        header, _ = peer.take()
        go_on.wait(60)
        peer.send({"id": header["id"], "success": True, "stdout": "", "stderr": "", "exit_code": 0})

    go_on = threading.Event()
    fleet, one = Fleet(), Double(script)
    live = await live_at(fleet, one, grace_s=0.2)
    call = asyncio.create_task(live.wire.call("exec", {}, timeout_s=0.1))
    async with fleet.frozen(lambda _: True):
        # Far beyond its time limit and the grace.
        assert not (await asyncio.wait([call], timeout=1.0))[0]
    go_on.set()
    assert (await call).success
    await fleet.close()


class Still:
    """What can be frozen, and how many tasks there were when it was."""

    lost = False
    tasks = 0

    async def freeze(self) -> None:
        self.tasks = len(asyncio.all_tasks())

    async def thaw(self) -> None: ...

    async def end(self) -> None: ...


async def test_a_freeze_takes_no_time_for_the_hundred_sandboxes_that_it_is_not_about():
    all_of_them = [Still() for _ in range(100)]
    wanted = all_of_them[70]
    before = len(asyncio.all_tasks())
    async with Freeze[Still](lambda one: one is wanted, lambda _one, _why: None) as freeze:
        await freeze.take_all(all_of_them)
        assert [one for one in all_of_them if one.tasks] == [wanted]
        # What gathers and what shields it.
        assert wanted.tasks <= before + 2
        assert all(one in freeze for one in all_of_them)


@pytest.mark.parametrize(
    ("writes", "reached"),
    [("work", True), ("work/inner", True), (".", True), ("other", False), ("workshop", False), ("link", True)],
)
async def test_a_sandbox_reaches_a_folder_in_above_or_below_what_it_can_write(tmp_path, writes, reached):
    for name in ("work/inner", "other", "workshop"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("work")
    made = Wanted.of(make_spec(workspace=str(tmp_path / writes)), AgentSettings(id="main"))
    live = await connect(made, Double(answering))
    assert live.can_reach(str(tmp_path / "work")) is reached
    await live.end()
