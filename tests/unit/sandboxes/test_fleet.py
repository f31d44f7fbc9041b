"""One sandbox for each key, whoever asks, however many, and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.model import Place
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.live import Wanted
from crabpot.sandboxes.opening import connect
from crabpot.settings import AgentSettings, Gateway
from tests.support.runners import Double, answering
from tests.support.waiting import until

KEY = (Place.SANDBOX, "agent:main:one")
OTHER = (Place.SANDBOX, "agent:main:two")


def wanted(key, version):
    return Wanted(key=key, version=version, agent=AgentSettings(id="main"))


class Opener:
    """Opens doubles, when it is let, and remembers them."""

    def __init__(self, script=None, *, held=False, **timing):
        self.timing = timing
        self.script = script or answering
        self.gate = asyncio.Event()
        if not held:
            self.gate.set()
        self.begun = 0
        self.made = []
        self.fault = None

    async def __call__(self, wanted):
        self.begun += 1
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        double = Double(self.script)
        self.made.append(double)
        return await connect(wanted, double, **self.timing)


async def spare_for(asked, opener):
    """Return what claims a sandbox that waits, and how often it was asked."""
    waiting, asks = [await opener(asked)], []

    def claim(_wanted):
        asks.append(1)
        return waiting.pop() if waiting else None

    return claim, asks


async def test_one_that_waits_is_claimed_at_once_and_found_by_those_who_come_after():
    fleet, opener, asked = Fleet(), Opener(), wanted(KEY, "v1")
    claim, asks = await spare_for(asked, opener)
    live = fleet.claim(asked, claim)
    assert live is not None
    assert fleet.find(asked) is live
    assert fleet.claim(asked, claim) is None
    assert len(asks) == 1
    await fleet.close()
    assert opener.made[0].closed == 1


async def test_none_is_claimed_while_others_are_frozen_or_one_has_to_go_first_or_the_gateway_closes():
    fleet, opener, asked = Fleet(limits=Gateway(max_sandboxes=1)), Opener(), wanted(KEY, "v1")
    claim, asks = await spare_for(asked, opener)
    async with fleet.frozen(lambda _: True):
        assert fleet.claim(asked, claim) is None
    other = await fleet.acquire(wanted(OTHER, "v1"), opener)
    assert fleet.claim(asked, claim) is None
    assert fleet.listed() == [other]
    await fleet.close()
    assert fleet.claim(asked, claim) is None
    assert asks == []
    await claim(asked).end()


async def test_one_that_was_lost_while_it_waited_is_replaced():
    fleet, opener, asked = Fleet(), Opener(), wanted(KEY, "v1")
    claim, _ = await spare_for(asked, opener)

    def lost(given):
        live = claim(given)
        live.wire.lose("it went away")
        return live

    assert fleet.claim(asked, lost) is None
    live = await fleet.acquire(asked, opener)
    assert (await live.wire.call("exec", {}, timeout_s=5)).success
    await fleet.close()
    assert [double.closed for double in opener.made] == [1, 1]


async def test_a_hundred_first_calls_at_once_open_one():
    fleet, opener = Fleet(), Opener()
    found = await asyncio.gather(*(fleet.acquire(wanted(KEY, "v1"), opener) for _ in range(100)))
    assert len(set(map(id, found))) == 1
    assert opener.begun == 1
    assert fleet.find(wanted(KEY, "v1")) is found[0]
    await fleet.close()
    assert opener.made[0].closed == 1


async def test_one_that_has_just_opened_counts_once():
    fleet, opener = Fleet(limits=Gateway(max_sandboxes=9, max_sandboxes_per_agent=2)), Opener()
    room, refused = [], []
    asked_for: list[Wanted] = []

    def look():
        try:
            fleet.claim(wanted(OTHER, "v1"), asked_for.append)
        except SandboxUnavailable as error:
            refused.append(str(error))
        room.append(fleet.room("main"))

    async def open_and_look(asked):
        live = await opener(asked)
        # The next thing that the loop does once the sandbox is live, before it tells anybody that it has opened.
        asyncio.get_running_loop().call_soon(look)
        return live

    await fleet.acquire(wanted(KEY, "v1"), open_and_look)
    await until(lambda: room)
    assert refused == []
    assert [one.key for one in asked_for] == [OTHER]
    assert room == [(1, 8)]
    await fleet.close()


async def test_keys_do_not_wait_for_each_other():
    fleet, slow, quick = Fleet(), Opener(held=True), Opener()
    waiting = asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), slow))
    await until(lambda: slow.begun)
    await fleet.acquire(wanted(OTHER, "v1"), quick)
    assert not waiting.done()
    slow.gate.set()
    await waiting
    assert len(fleet.listed()) == 2
    await fleet.close()


async def test_no_session_can_be_named_so_that_it_finds_the_hosts_runner():
    fleet, opener = Fleet(), Opener()
    await fleet.acquire(wanted((Place.HOST, "main"), "v1"), opener)
    assert fleet.find(wanted((Place.SANDBOX, "main"), "v1")) is None
    await fleet.close()


async def test_a_failure_is_told_to_all_who_wait_and_the_next_call_tries_anew():
    fleet, opener = Fleet(), Opener(held=True)
    opener.fault = SandboxUnavailable("no user namespaces here")
    waiting = [asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener)) for _ in range(10)]
    await until(lambda: opener.begun)
    opener.gate.set()
    for ended in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(ended, SandboxUnavailable)
    assert opener.begun == 1
    opener.fault = None
    await fleet.acquire(wanted(KEY, "v1"), opener)
    await fleet.close()


async def test_a_failure_that_nobody_waited_for_is_not_logged():
    fleet, opener = Fleet(), Opener(held=True)
    opener.fault = SandboxUnavailable("too late to matter")
    waiting = asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener))
    await until(lambda: opener.begun)
    waiting.cancel()
    await asyncio.wait({waiting})
    opener.gate.set()
    await until(lambda: not fleet._opening)
    await fleet.close()


async def test_a_runner_that_never_answers_is_ended_before_the_error_is_told():
    fleet, opener = Fleet(), Opener(lambda peer: peer.take("hello"), start_s=0.1)
    with pytest.raises(SandboxUnavailable, match="did not answer within"):
        await fleet.acquire(wanted(KEY, "v1"), opener)
    assert opener.made[0].closed == 1
    assert fleet.listed() == []
    await fleet.close()


async def test_a_caller_that_gives_up_does_not_take_the_sandbox_from_the_others():
    fleet, opener = Fleet(), Opener(held=True)
    waiting = [asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener)) for _ in range(3)]
    await until(lambda: opener.begun)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    opener.gate.set()
    first, second = await asyncio.gather(*waiting[1:])
    assert first is second
    assert opener.begun == 1
    await fleet.close()


async def test_if_all_give_up_the_sandbox_is_still_there_for_the_next():
    fleet, opener = Fleet(), Opener(held=True)
    waiting = asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener))
    await until(lambda: opener.begun)
    waiting.cancel()
    await asyncio.wait({waiting})
    opener.gate.set()
    await until(fleet.listed)
    assert fleet.find(wanted(KEY, "v1")) is not None
    await fleet.close()
    assert opener.made[0].closed == 1


def gated(gate):
    def script(peer):
        peer.greet()
        header, _ = peer.take()
        assert gate.recv(1)
        peer.send({"id": header["id"], "success": True, "stdout": "finished in peace\n"})

    return script


async def test_a_new_version_replaces_the_old_one_once_its_calls_have_ended():
    ours, theirs = socket.socketpair()
    fleet, old, new = Fleet(), Opener(gated(theirs)), Opener()
    first = await fleet.acquire(wanted(KEY, "v1"), old)
    call = asyncio.create_task(first.wire.call("exec", {}, timeout_s=60))
    await until(lambda: first.wire.busy)
    second = await fleet.acquire(wanted(KEY, "v2"), new)
    assert second is not first
    assert fleet.listed() == [second]
    assert (await second.wire.call("exec", {}, timeout_s=60)).stdout == "fine\n"
    assert old.made[0].closed == 0
    ours.send(b"!")
    assert (await call).stdout == "finished in peace\n"
    await until(lambda: old.made[0].closed)
    assert new.made[0].closed == 0
    await fleet.close()
    ours.close()
    theirs.close()


async def test_those_who_want_different_versions_at_once_each_get_their_own():
    fleet, opener = Fleet(), Opener()
    versions = [f"v{number % 3}" for number in range(30)]
    found = await asyncio.gather(*(fleet.acquire(wanted(KEY, version), opener) for version in versions))
    assert [live.wanted.version for live in found] == versions
    await fleet.close()
    assert all(double.closed for double in opener.made)


async def test_a_lost_one_is_replaced_on_the_next_call_and_ended():
    def breaks(peer):
        peer.greet()
        peer.take()
        peer.raw(b"nonsense\n")

    fleet, bad, good = Fleet(), Opener(breaks), Opener()
    live = await fleet.acquire(wanted(KEY, "v1"), bad)
    with pytest.raises(SandboxLost):
        await live.wire.call("exec", {}, timeout_s=60)
    assert live.lost
    assert fleet.find(wanted(KEY, "v1")) is None
    assert fleet.listed() == []
    fresh = await fleet.acquire(wanted(KEY, "v1"), good)
    assert fresh is not live
    await until(lambda: bad.made[0].closed)
    await fleet.close()


async def test_to_forget_a_lost_one_never_touches_the_one_that_took_its_place():
    """Two calls are lost in one sandbox; the slower of the two hears of it when a third is already in the next."""
    fleet, opener = Fleet(), Opener()
    lost = await fleet.acquire(wanted(KEY, "v1"), opener)
    lost.wire.lose("killed")
    fleet.forget(lost)
    fresh = await fleet.acquire(wanted(KEY, "v1"), opener)
    fleet.forget(lost)
    assert fleet.find(wanted(KEY, "v1")) is fresh
    assert (await fresh.wire.call("exec", {}, timeout_s=60)).success
    await until(lambda: opener.made[0].closed)
    await fleet.close()


async def test_stop_ends_a_sandbox_and_the_calls_in_it():
    fleet, opener = Fleet(), Opener(lambda peer: peer.greet())
    live = await fleet.acquire(wanted(KEY, "v1"), opener)
    call = asyncio.create_task(live.wire.call("exec", {}, timeout_s=60))
    await until(lambda: live.wire.busy)
    assert await fleet.stop(KEY)
    with pytest.raises(SandboxLost, match="it was closed"):
        await call
    assert opener.made[0].closed == 1
    assert not await fleet.stop(KEY)
    await fleet.close()


async def test_reaping_ends_the_stale_and_the_lost_but_none_that_is_busy():
    fleet = Fleet()
    openers = {name: Opener(lambda peer: peer.greet()) for name in ("stale", "busy", "lost", "fresh")}
    lives = {}
    for name, opener in openers.items():
        lives[name] = await fleet.acquire(wanted((Place.SANDBOX, name), "v1"), opener)
    call = asyncio.create_task(lives["busy"].wire.call("exec", {}, timeout_s=60))
    await until(lambda: lives["busy"].wire.busy)
    lives["lost"].wire.lose("killed")
    reaped = await fleet.reap(lambda live: live.key[1] in ("stale", "busy"))
    assert sorted(key[1] for key in reaped) == ["lost", "stale"]
    assert {name: opener.made[0].closed for name, opener in openers.items()} == {
        "stale": 1,
        "busy": 0,
        "lost": 1,
        "fresh": 0,
    }
    await fleet.close()
    with pytest.raises(SandboxLost):
        await call


async def test_to_find_a_sandbox_is_to_use_it():
    fleet, opener = Fleet(), Opener()
    live = await fleet.acquire(wanted(KEY, "v1"), opener)
    live.used = 0
    fleet.find(wanted(KEY, "v1"))
    assert time.time() - live.used < 60
    await fleet.close()


async def test_closing_while_one_is_being_opened_leaves_nothing_and_tells_who_waits():
    fleet, opener = Fleet(), Opener(held=True)
    waiting = [asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener)) for _ in range(3)]
    await until(lambda: opener.begun)
    await fleet.close()
    for ended in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(ended, SandboxUnavailable)
        assert "closing" in str(ended)
    assert opener.made == []


async def test_closing_while_a_runner_gets_ready_ends_that_runner():
    fleet, opener = Fleet(), Opener(lambda peer: peer.take("hello"))
    waiting = asyncio.create_task(fleet.acquire(wanted(KEY, "v1"), opener))
    await until(lambda: opener.made)
    await fleet.close()
    with pytest.raises(SandboxUnavailable, match="closing"):
        await waiting
    assert opener.made[0].closed == 1


async def test_nothing_opens_after_the_close():
    fleet, opener = Fleet(), Opener()
    await fleet.close()
    with pytest.raises(SandboxUnavailable, match="closing"):
        await fleet.acquire(wanted(KEY, "v1"), opener)
    assert opener.begun == 0


async def test_closing_ends_those_that_were_replaced_and_still_busy():
    fleet, old, new = Fleet(), Opener(lambda peer: peer.greet()), Opener()
    first = await fleet.acquire(wanted(KEY, "v1"), old)
    call = asyncio.create_task(first.wire.call("exec", {}, timeout_s=60))
    await until(lambda: first.wire.busy)
    await fleet.acquire(wanted(KEY, "v2"), new)
    await fleet.close()
    with pytest.raises(SandboxLost):
        await call
    assert (old.made[0].closed, new.made[0].closed) == (1, 1)


async def test_one_that_cannot_be_ended_is_told_after_all_others_were():
    fleet, bad, good = Fleet(), Opener(), Opener()
    live = await fleet.acquire(wanted(KEY, "v1"), bad)
    await fleet.acquire(wanted(OTHER, "v1"), good)
    close = live.sandbox.close

    async def stuck():
        await close()
        raise OSError("a folder that is in use")

    vars(live.sandbox)["close"] = stuck
    with pytest.raises(OSError, match="in use"):
        await fleet.close()
    assert good.made[0].closed == 1


async def test_one_of_many_that_hang_does_not_hold_the_fleet():
    """A runner that says nothing after its time limit is lost; the fleet goes on."""
    fleet, silent, good = Fleet(), Opener(lambda peer: peer.greet(), grace_s=0.1), Opener()
    live = await fleet.acquire(wanted(KEY, "v1"), silent)
    other = await fleet.acquire(wanted(OTHER, "v1"), good)
    call = asyncio.create_task(live.wire.call("exec", {}, timeout_s=0.1))
    assert (await other.wire.call("exec", {}, timeout_s=60)).success
    with pytest.raises(SandboxLost, match="did not end a call"):
        await call
    assert (await other.wire.call("exec", {}, timeout_s=60)).success
    await fleet.close()
