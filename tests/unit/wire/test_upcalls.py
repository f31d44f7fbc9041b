"""Upcalls that a hostile runner begins: each way of holding one wrongly costs that sandbox and nothing else."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crabpot.decide.scope import PRINCIPAL
from crabpot.errors import SandboxUnavailable
from crabpot.runner.core.frames import MAX_QUESTION, MAX_UPCALLS, UPCALL_WINDOW, WINDOW, encode
from crabpot.wire.upcalls import Upcalls
from tests.support.runners import Double, answering, answering_after_greeting, connected
from tests.support.waiting import until

BEGIN = {"op": "upcall", "up": "1", "kind": "talk"}
DATA = {"op": "data", "up": "1"}
EOF = {"op": "data", "up": "1", "eof": True}
DROP = {"op": "drop", "up": "1"}


def answer(peer, header):
    peer.send({"id": header["id"], "success": True, "stdout": "fine\n", "stderr": "", "exit_code": 0})


@asynccontextmanager
async def talking(script, talk):
    """Connect a runner whose upcalls begin once it was called, as nothing runs inside before that."""
    async with connected(Double(script)) as wire:
        wire.upcalls.answers = {"talk": talk}
        assert (await wire.call("exec", {}, timeout_s=20)).success
        yield wire


class Runner:
    """The script of a runner that says its piece after the first call, and keeps what it gets for the test to see."""

    def __init__(self, *frames):
        self.begins = frames
        self.seen = []
        self.peer = None

    def __call__(self, peer):
        peer.greet()
        self.peer = peer
        answer(peer, peer.take()[0])
        for item in self.begins:
            self.say(*(item if isinstance(item, tuple) else (item,)))
        while True:
            header, payload = peer.take_any()
            if "op" in header:
                self.seen.append((header, payload))
            else:
                answer(peer, header)

    def say(self, header, payload=b""):
        self.peer.send(header, payload)

    def got(self, op):
        return [(header, payload) for header, payload in self.seen if header["op"] == op]


async def echo(upcall):
    while data := await upcall.read():
        await upcall.write(data)
    upcall.write_eof()
    upcall.reply(success=True)


async def never(_upcall):
    await asyncio.Event().wait()


async def test_bytes_go_both_ways_and_it_ends_once():
    runner = Runner((BEGIN, b"to\0x"), (DATA, b"one "), (DATA, b"two"), EOF)
    seen: dict[str, Any] = {}

    async def talk(upcall):
        seen.update(question=upcall.question, kind=upcall.kind)
        await echo(upcall)

    async with talking(runner, talk) as wire:
        await until(lambda: runner.got("reply"))
        assert seen == {"question": b"to\0x", "kind": "talk"}
        assert b"".join(payload for _, payload in runner.got("data")) == b"one two"
        assert runner.got("data")[-1][0] == {"op": "data", "up": "1", "stream": "stdout", "eof": True}
        assert [header for header, _ in runner.got("reply")] == [{"success": True, "op": "reply", "up": "1"}]
        await until(lambda: not wire.upcalls)
        assert (await wire.call("exec", {}, timeout_s=20)).stdout == "fine\n"


async def test_what_is_not_offered_is_denied_and_costs_nothing():
    runner = Runner({**BEGIN, "kind": "connect"}, {**BEGIN, "up": "2", "kind": "run"})
    async with talking(runner, never) as wire:
        await until(lambda: len(runner.got("reply")) == 2)
        assert {header["error"]["code"] for header, _ in runner.got("reply")} == {"denied"}
        assert wire.lost is None


BROKEN = {
    "one that has no kind": (({"op": "upcall", "up": "1"},), "without a valid kind"),
    "one whose kind is a list": (({**BEGIN, "kind": []},), "without a valid kind"),
    "one whose id is a number": (({**BEGIN, "up": 1},), "out of turn"),
    "one whose id is null": (({**BEGIN, "up": None},), "out of turn"),
    "one whose id is a list": (({**BEGIN, "up": ["1"]},), "out of turn"),
    "one whose id is ahead": (({**BEGIN, "up": "2"},), "out of turn"),
    "one whose id was used": ((BEGIN, BEGIN), "out of turn"),
    "one whose id is written otherwise": (({**BEGIN, "up": "01"},), "out of turn"),
    "one of a kind without end": (({**BEGIN, "kind": "x" * 17},), "without a valid kind"),
    "one with a field of its own": (({**BEGIN, "argv": ["id"]},), "more than a question"),
    "one with a field of its own that calls itself an answer": (
        ({"id": "1", **BEGIN, "argv": ["x" * 5000]},),
        "more than a question",
    ),
    "one whose question is too long": (((BEGIN, b"x" * (MAX_QUESTION + 1)),), "more than a question"),
    "data for one that never began": (((DATA, b"x"),), "unknown upcall"),
    "data for an id that is no number": ((BEGIN, ({**DATA, "up": "x"}, b"x")), "unknown upcall"),
    "data for an id of other digits": ((BEGIN, ({**DATA, "up": "\u0661"}, b"x")), "unknown upcall"),
    "data for id 0": ((BEGIN, ({**DATA, "up": "0"}, b"x")), "unknown upcall"),
    "data for a negative id": ((BEGIN, ({**DATA, "up": "-1"}, b"x")), "unknown upcall"),
    "data for an endless id": ((BEGIN, ({**DATA, "up": "9" * 4000}, b"x")), "unknown upcall"),
    "data for a list of ids": ((BEGIN, ({**DATA, "up": []}, b"x")), "unknown kind"),
    "data without a byte": ((BEGIN, DATA), "an empty piece"),
    "an end that brings bytes": ((BEGIN, (EOF, b"x")), "an EOF with data"),
    "data after the end": ((BEGIN, EOF, (DATA, b"x")), "after EOF"),
    "two ends": ((BEGIN, EOF, EOF), "after EOF"),
    "more than the window": ((BEGIN, *[(DATA, b"x" * 65_536)] * 5), "more than the window"),
    "an acknowledgement of what was not sent": ((BEGIN, {"op": "ack", "up": "1", "n": 1}), "not sent"),
    "an acknowledgement of text": ((BEGIN, {"op": "ack", "up": "1", "n": "1"}), "not sent"),
    "an acknowledgement of true": ((BEGIN, {"op": "ack", "up": "1", "n": True}), "not sent"),
    "a signal without a name": ((BEGIN, {"op": "signal", "up": "1"}), "without a name"),
    "a signal of a list": ((BEGIN, {"op": "signal", "up": "1", "signal": ["INT"]}), "without a name"),
    "a signal of a sentence": ((BEGIN, {"op": "signal", "up": "1", "signal": "INT; rm"}), "without a name"),
    "a signal without end": ((BEGIN, {"op": "signal", "up": "1", "signal": "I" * 17}), "without a name"),
    "a flood of signals": ((BEGIN, *[{"op": "signal", "up": "1", "signal": "INT"}] * 65), "faster than"),
    "a reply of its own": ((BEGIN, {"op": "reply", "up": "1", "success": True}), "unknown kind"),
    "an operation of nobody": ((BEGIN, {"op": "exec", "up": "1"}), "unknown kind"),
    "an operation that is a list": ((BEGIN, {"op": [], "up": "1"}), "unknown kind"),
    "an answer to a call that is one of these": ((BEGIN, {"up": "1", "id": "1", "success": True}), "unknown kind"),
    "more at once than there may be": (
        tuple({**BEGIN, "up": str(number)} for number in range(1, MAX_UPCALLS + 2)),
        "upcalls at once",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_an_upcall_that_is_not_to_the_letter_loses_the_sandbox_and_the_next_one_goes_on(name):
    frames, reason = BROKEN[name]
    async with connected(Double(answering)) as other, talking(Runner(*frames), never) as wire:
        await until(lambda: wire.lost)
        assert reason in wire.lost
        await wire.upcalls.ended()
        assert (await other.call("exec", {}, timeout_s=20)).stdout == "fine\n"


async def test_as_many_at_once_as_there_may_be_are_held_and_calls_go_on():
    begins = [{**BEGIN, "up": str(number)} for number in range(1, MAX_UPCALLS + 1)]
    async with talking(Runner(*begins), never) as wire:
        await until(lambda: len(wire.upcalls) == MAX_UPCALLS)
        assert (await wire.call("exec", {}, timeout_s=20)).stdout == "fine\n"


async def test_frames_that_crossed_the_reply_are_no_mistake():
    runner = Runner(BEGIN)

    async def at_once(upcall):
        upcall.reply(exit_code=3)

    async with talking(runner, at_once) as wire:
        await until(lambda: runner.got("reply"))
        for late in ((DATA, b"x"), (EOF,), (DROP,), ({"op": "ack", "up": "1", "n": 5},)):
            runner.say(*late)
        assert (await wire.call("exec", {}, timeout_s=20)).stdout == "fine\n"
        assert wire.lost is None


async def test_who_answers_is_cancelled_when_it_is_dropped_and_frames_behind_that_are_nothing():
    runner = Runner(BEGIN, DROP, (DATA, b"x"), DROP)
    cancelled = []

    async def waiting(upcall):
        try:
            await upcall.read()
            await never(upcall)
        except asyncio.CancelledError:
            cancelled.append(upcall.dropped.is_set())
            raise

    async with talking(runner, waiting) as wire:
        await until(lambda: runner.got("reply"))
        assert cancelled == [True]
        assert wire.lost is None


async def test_who_answers_is_cancelled_when_the_sandbox_is_lost_and_nothing_is_left_of_it():
    ended = []

    async def slow_to_go(upcall):
        try:
            await never(upcall)
        finally:
            await asyncio.sleep(0)
            ended.append(upcall.dropped.is_set())

    async with talking(Runner(BEGIN), slow_to_go) as wire:
        await until(lambda: len(wire.upcalls))
        await asyncio.sleep(0)
        wire.lose("the test says so")
        await wire.upcalls.ended()
        assert ended == [False]


async def test_an_answer_that_breaks_tells_the_runner_nothing_of_why():
    runner = Runner(BEGIN)

    async def broken(_upcall):
        raise ValueError("the token is s3cret")

    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with talking(runner, broken) as wire:
        await until(lambda: runner.got("reply"))
        assert "s3cret" not in str(runner.seen)
        assert runner.got("reply")[0][0]["error"]["code"] == "internal"
        assert wire.lost is None
    assert [str(context["exception"]) for context in complaints] == ["the token is s3cret"]


@pytest.mark.parametrize("reply", [None, {"text": "x" * (2 << 20)}, {"thing": object()}])
async def test_an_answer_without_a_sendable_reply_is_still_an_answer(reply):
    runner = Runner(BEGIN)

    async def mute(upcall):
        if reply is not None:
            upcall.reply(**reply)

    async with talking(runner, mute):
        await until(lambda: runner.got("reply"))
        assert runner.got("reply")[0][0]["error"]["code"] == "internal"


async def test_what_an_answer_left_running_sends_nothing_behind_the_reply():
    runner = Runner(BEGIN, (DATA, b"x" * UPCALL_WINDOW))
    kept = []

    async def careless(upcall):
        kept.append(upcall)
        upcall.reply()

    async with talking(runner, careless) as wire:
        await until(lambda: runner.got("reply"))
        await kept[0].write(b"late")
        await kept[0].read()
        kept[0].write_eof()
        await wire.call("exec", {}, timeout_s=20)
        assert [header["op"] for header, _ in runner.seen] == ["reply"]


async def test_one_that_nobody_reads_holds_a_window_and_no_more_and_stops_no_call():
    runner = Runner(BEGIN)

    async def flooding(upcall):
        while True:
            await upcall.write(b"x" * 100_000)

    async with talking(runner, flooding) as wire:

        def held():
            return sum(len(payload) for _, payload in runner.got("data"))

        await until(lambda: held() > WINDOW - 100_000)
        for _ in range(20):
            assert (await wire.call("exec", {}, timeout_s=20)).stdout == "fine\n"
        assert held() <= WINDOW
        runner.say({"op": "ack", "up": "1", "n": held()})
        await until(lambda: held() > 2 * (WINDOW - 100_000))


async def test_single_bytes_that_nobody_takes_are_held_in_little_memory():
    frame = encode(DATA, b"x")

    def script(peer):
        peer.greet()
        answer(peer, peer.take()[0])
        peer.send(BEGIN)
        for _ in range(UPCALL_WINDOW // 1024):
            peer.raw(frame * 1024)
        answering_after_greeting(peer)

    tracemalloc.start()
    try:
        async with connected(Double(script)) as wire:
            wire.upcalls.answers = {"talk": never}
            await wire.call("exec", {}, timeout_s=40)
            assert wire.lost is None
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


async def test_a_runner_that_asks_and_never_reads_is_cut_off_in_bounded_memory():
    def script(peer):
        peer.greet()
        answer(peer, peer.take()[0])
        for number in range(1, 10_000_000):
            peer.send({**BEGIN, "up": str(number), "kind": "nothing"})

    tracemalloc.start()
    try:
        async with talking(script, never) as wire:
            await until(lambda: wire.lost, within_s=50)
            assert "upcalls at once" in wire.lost
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


async def test_questions_full_of_nested_values_are_not_held():
    """A mebibyte of `{},` is 24 MiB once parsed: 120 of them took 2.9 GB of the gateway."""
    nested = b"[" + b",".join([b"{}"] * 300_000) + b"]"

    def script(peer):
        peer.greet()
        answer(peer, peer.take()[0])
        for number in range(1, 121):
            peer.raw(b'{"op":"upcall","up":"%d","kind":"talk","x":%s}\n' % (number, nested))

    tracemalloc.start()
    try:
        async with talking(script, never) as wire:
            await until(lambda: wire.lost or len(wire.upcalls) == 120, within_s=50)
            assert "not an answer" in (wire.lost or "")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


async def test_a_greeting_full_of_nested_values_is_not_held():
    def script(peer):
        peer.take("hello")
        peer.raw(b'{"op":"ready","protocol":1,"x":[%s]}\n' % b",".join([b"{}"] * 300_000))

    with pytest.raises(SandboxUnavailable, match="not an answer"):
        async with connected(Double(script)):
            pass


async def test_signals_are_heard_in_order():
    runner = Runner(BEGIN, *({"op": "signal", "up": "1", "signal": name} for name in ("INT", "TERM")))

    async def hearing(upcall):
        names = []
        async for name in upcall.signals():
            names.append(name)
            if len(names) == 2:
                break
        upcall.reply(names=names)

    async with talking(runner, hearing):
        await until(lambda: runner.got("reply"))
        assert runner.got("reply")[0][0]["names"] == ["INT", "TERM"]


class Unread:
    """The gateway's end of a stream whose other end reads nothing."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.principal = None
        self.writable = asyncio.Event()
        self.sent: list[Any] = []

    def send(self, header, _payload=b""):
        self.sent.append(header)


async def test_what_was_sent_to_one_that_ended_is_not_kept_for_a_runner_that_reads_no_replies():
    stream: Any = Unread()
    upcalls = Upcalls(stream)
    tracemalloc.start()
    try:
        for number in range(100):
            # Nothing of this kind is offered, so each ends at once.
            upcalls.take({**BEGIN, "up": str(number + 1)}, b"")
            upcalls.take({**DATA, "up": str(number + 1)}, bytes(UPCALL_WINDOW // 2))
            await asyncio.sleep(0)
            upcalls.take({**DATA, "up": str(number + 1)}, bytes(UPCALL_WINDOW // 2))
        assert len(upcalls) == 100
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()
    stream.writable.set()
    await until(lambda: not upcalls)
    assert len(stream.sent) == 100


async def test_an_upcall_is_charged_to_whoever_uses_the_sandbox_and_not_to_whoever_opened_it():
    stream: Any = Unread()
    stream.principal, behind = "agent hostile", []

    async def talk(_upcall):
        behind.append(PRINCIPAL.get())

    upcalls = Upcalls(stream)
    upcalls.answers = {"talk": talk}
    upcalls.take(BEGIN, b"")
    await until(lambda: behind)
    assert behind == ["agent hostile"]
    assert PRINCIPAL.get() is None
    stream.writable.set()
    await until(lambda: not upcalls)
