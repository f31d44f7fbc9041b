"""The gateway against a hostile runner: each way of speaking the wire wrongly costs that sandbox and nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import os
import signal
import socket
import threading
import tracemalloc
import weakref
from typing import Any

import pytest

from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.runner.core.frames import MAX_LINE, WINDOW, encode
from tests.support.runners import Double, answering, connected, real_runner
from tests.support.waiting import until

GRACE_S = 0.2
LIMIT_S = 0.2

DONE = {"success": True, "stdout": "", "stderr": "", "exit_code": 0, "error": None, "truncated": False, "data": None}


def answer(call_id, **fields):
    return {"id": call_id, **DONE, **fields}


def raw(data):
    return lambda peer, _call_id: peer.raw(data)


def frames(*headers):
    """Send frames, in which ID stands for the call's id and a pair is a header with its payload."""

    def attack(peer, call_id):
        for item in headers:
            header, payload = item if isinstance(item, tuple) else (item, b"")
            named = {key: call_id if value == "ID" else value for key, value in header.items()}
            peer.send(named, payload)

    return attack


def wrong(**fields):
    return frames(answer("ID", **fields))


def output(stream="stdout", **more):
    return {"op": "output", "id": "ID", "stream": stream, **more}


def flood(header, payload=b"", times=1_000_000):
    """Send a frame until the gateway has enough of it."""

    def attack(peer, call_id):
        frame = encode({**header, "id": call_id}, payload)
        batch = frame * max(1, (1 << 18) // len(frame))
        for _ in range(0, times, max(1, (1 << 18) // len(frame))):
            peer.raw(batch)

    return attack


def attacking(attack):
    """Return the script of a runner that is honest until its first call."""

    def script(peer):
        peer.greet()
        header, _ = peer.take()
        attack(peer, header["id"])

    return script


def endless_line(peer, _call_id):
    for _ in range(1 << 16):
        peer.raw(b"x" * (1 << 16))


def trickle_then_break(peer, call_id):
    for byte in encode({"op": "nonsense", "id": call_id}):
        peer.raw(bytes([byte]))


def half_close(peer, _call_id):
    peer.sock.shutdown(socket.SHUT_WR)


def close_mid_frame(peer, call_id):
    peer.raw(encode(answer(call_id))[:-10])
    peer.sock.shutdown(socket.SHUT_RDWR)


def close_mid_payload(peer, call_id):
    peer.raw(encode(output("content") | {"id": call_id}, b"x" * 1000)[:-500])
    peer.sock.shutdown(socket.SHUT_RDWR)


def surrogate(**where):
    return frames(answer("ID", **where))


ATTACKS = {
    "a giant line": (raw(b'{"id":"' + b"x" * (MAX_LINE + 1) + b'"}\n'), "a line of more than"),
    "an endless line": (endless_line, "a line of more than"),
    "a giant payload": (raw(b'{"op":"output","id":"1","stream":"stdout","bytes":1099511627776}\n'), "payload size"),
    "a payload just above the cap": (raw(b'{"id":"1","bytes":1048577}\n'), "payload size"),
    "negative bytes": (raw(b'{"id":"1","bytes":-1}\n'), "payload size"),
    "bytes that are true": (raw(b'{"id":"1","bytes":true}\n'), "payload size"),
    "bytes with a fraction": (raw(b'{"id":"1","bytes":1.0}\n'), "payload size"),
    "bytes as text": (raw(b'{"id":"1","bytes":"4"}\n'), "payload size"),
    "bytes that are null": (raw(b'{"id":"1","bytes":null}\n'), "payload size"),
    "invalid UTF-8": (raw(b'{"id":"\xff\xfe"}\n'), "not JSON"),
    "a NUL byte": (raw(b"\0\n"), "not JSON"),
    "no JSON": (raw(b"hello, gateway\n"), "not JSON"),
    "an empty line": (raw(b"\n"), "not JSON"),
    "NaN": (raw(b'{"id":"1","exit_code":NaN}\n'), "not JSON"),
    "an infinite number": (raw(b'{"id":"1","exit_code":1e999}\n'), "not JSON"),
    "a number of a million digits": (raw(b'{"id":"1","exit_code":' + b"9" * 1_000_000 + b"}\n"), "not JSON"),
    "two objects on one line": (raw(b'{"id":"1"}{"id":"1"}\n'), "something after"),
    "an array": (raw(b'["id","1"]\n'), "not an object"),
    "a string": (raw(b'"id"\n'), "not an object"),
    "null": (raw(b"null\n"), "not an object"),
    "deep nesting": (raw(b'{"id":' + b"[" * 500_000 + b"\n"), "not JSON"),
    "deep nesting in no answer": (raw(b"[" * 500_000 + b"\n"), "not an answer"),
    "deep objects": (raw(b'{"id":' + b'{"a":' * 100_000 + b"\n"), "not JSON"),
    "data of deep nesting": (wrong(data=json.loads('{"a":' * 200 + "0" + "}" * 200)), "nested deeper"),
    "a list of deep nesting": (wrong(data={"a": json.loads("[" * 200 + "]" * 200)}), "nested deeper"),
    "no id": (frames(DONE), "not in flight"),
    "an unknown id": (frames(answer("999")), "not in flight"),
    "an empty id": (frames(answer("")), "not in flight"),
    "an id that is a number": (frames(answer(1)), "not in flight"),
    "an id that is a list": (frames(answer([])), "not in flight"),
    "an id that is an object": (frames(answer({})), "not in flight"),
    "an id with a NUL": (frames(answer("1\0")), "not in flight"),
    "an operation that is a list": (frames({"op": [], "id": "ID"}), "unknown kind"),
    "an operation of nobody": (frames({"op": "exec", "id": "ID"}), "unknown kind"),
    "a gateway's operation": (frames({"op": "cancel", "id": "ID"}), "unknown kind"),
    "an upcall's frame for a call": (frames({"op": "data", "id": "ID"}), "unknown kind"),
    "an upcall's frame with a call's id": (frames({"op": "data", "id": "ID", "up": "1"}), "unknown kind"),
    "ready twice": (frames({"op": "ready", "protocol": 1}), "not in flight"),
    "ready for a call": (frames({"op": "ready", "protocol": 1, "id": "ID"}), "unknown kind"),
    "output of an unknown stream": (frames((output("stdlog"), b"x")), "unknown stream"),
    "output of no stream": (frames((output(None), b"x")), "unknown stream"),
    "output of a list of streams": (frames((output(["stdout"]), b"x")), "unknown stream"),
    "output without a byte": (frames(output()), "an empty piece"),
    "output for no call": (frames(({"op": "output", "id": "7", "stream": "stdout"}, b"x")), "not in flight"),
    "content that was not asked for": (frames((output("content"), b"x")), "not requested"),
    "more output than the limit": (flood(output(), b"x" * 60_000), "more output than the limit"),
    "more output in single bytes": (flood(output(), b"x"), "more output than the limit"),
    "an acknowledgement of nothing": (frames({"op": "ack", "id": "ID", "n": 1}), "unknown kind"),
    "success that is text": (wrong(success="yes"), "success"),
    "success that is a number": (wrong(success=1), "success"),
    "success that is null": (wrong(success=None), "success"),
    "stdout that is a number": (wrong(stdout=5), "not a string"),
    "stdout that is null": (wrong(stdout=None), "not a string"),
    "stderr that is a list": (wrong(stderr=["x"]), "not a string"),
    "an exit code of 256": (wrong(success=False, exit_code=256), "exit_code"),
    "an exit code of -1": (wrong(success=False, exit_code=-1), "exit_code"),
    "an exit code of true": (wrong(success=False, exit_code=True), "exit_code"),
    "an exit code of 1.0": (wrong(success=False, exit_code=1.0), "exit_code"),
    "an exit code as text": (wrong(success=False, exit_code="0"), "exit_code"),
    "truncated that is 0": (wrong(truncated=0), "truncated"),
    "data that is a list": (wrong(data=[1]), "data"),
    "data that is text": (wrong(data="x"), "data"),
    "an error that is text": (wrong(success=False, error="denied"), "code"),
    "an error without a code": (wrong(success=False, error={"message": "x"}), "code"),
    "an error whose code is a list": (wrong(success=False, error={"code": ["timeout"], "message": "x"}), "code"),
    "an error whose code is an object": (wrong(success=False, error={"code": {}, "message": "x"}), "code"),
    "an error of an unknown code": (wrong(success=False, error={"code": "sudo", "message": "x"}), "code"),
    "an error whose message is a number": (wrong(success=False, error={"code": "timeout", "message": 5}), "string"),
    "an error that claims a denial": (wrong(success=False, error={"code": "denied", "message": "x"}), "code"),
    "an error that claims an approval": (wrong(success=False, error={"code": "approval_denied"}), "code"),
    "an error that claims a time-out": (wrong(success=False, error={"code": "approval_timeout"}), "code"),
    "an error that claims a loss": (wrong(success=False, error={"code": "sandbox_lost", "message": "x"}), "code"),
    "an error that claims no sandbox": (wrong(success=False, error={"code": "sandbox_unavailable"}), "code"),
    "success with an error": (wrong(error={"code": "timeout", "message": "x"}), "contradicts"),
    "success with a failure's exit code": (wrong(exit_code=7), "contradicts"),
    "a trickle that ends in nonsense": (trickle_then_break, "unknown kind"),
    "a half-closed stream": (half_close, "stream ended"),
    "an end in mid-frame": (close_mid_frame, "stream ended"),
    "an end in mid-payload": (close_mid_payload, "stream ended"),
    "silence": (lambda _peer, _call_id: None, "did not end a call within 0.2 s after its time limit of 0.2 s"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_runner_that_breaks_the_wire_loses_its_sandbox_and_the_next_one_goes_on(name):
    attack, reason = ATTACKS[name]
    limit_s = LIMIT_S if name == "silence" else 120
    double = Double(attacking(attack))
    async with connected(Double(answering)) as other, connected(double, grace_s=GRACE_S) as wire:
        with pytest.raises(SandboxLost, match=reason):
            await wire.call("exec", {"command": "true"}, timeout_s=limit_s)
        assert wire.lost is not None
        assert wire.busy == 0
        with pytest.raises(SandboxLost, match=reason):
            await wire.call("exec", {"command": "true"}, timeout_s=limit_s)
        assert (await other.call("exec", {}, timeout_s=20)).stdout == "fine\n"
        # Cut off by the gateway: the double only ends once its stream has.
        await until(lambda: not double.thread.is_alive())


async def test_a_runner_whose_call_is_held_is_not_waited_for_beyond_its_spare_time():
    double = Double(attacking(lambda _peer, _call_id: None))
    async with connected(double, grace_s=GRACE_S) as wire:
        wire.hold()
        with pytest.raises(SandboxLost, match="after its time limit"):
            await wire.call("exec", {"command": "true"}, timeout_s=LIMIT_S, spare_s=LIMIT_S)
        wire.resume()


async def test_a_call_with_less_time_than_those_before_it_is_not_waited_for_longer():
    async with connected(Double(attacking(lambda peer, _: peer.take())), grace_s=GRACE_S) as wire:
        patient = asyncio.create_task(wire.call("exec", {}, timeout_s=60))
        await until(lambda: wire.busy == 1)
        with pytest.raises(SandboxLost, match="time limit of"):
            await asyncio.wait_for(wire.call("exec", {}, timeout_s=LIMIT_S), 30)
        with pytest.raises(SandboxLost):
            await patient


async def test_what_a_caller_brings_is_not_kept_beyond_its_call(tmp_path):
    class Secret:
        pass

    brought: contextvars.ContextVar[Any] = contextvars.ContextVar("brought", default=None)
    seen = []

    async def call(wire):
        brought.set(Secret())
        seen.append(weakref.ref(brought.get()))
        assert (await wire.call("ls", {}, timeout_s=60)).success

    async with real_runner(tmp_path) as wire:
        await asyncio.create_task(call(wire))
        await until(lambda: seen[0]() is None)


async def test_the_clock_of_a_held_call_stands_still_inside_and_goes_on_after_it(tmp_path):
    async with real_runner(tmp_path) as wire:
        wire.hold()
        held = asyncio.create_task(wire.call("exec", {"command": "sleep 1000"}, timeout_s=LIMIT_S, spare_s=60))
        free = await wire.call("exec", {"command": "sleep 1000"}, timeout_s=2 * LIMIT_S)
        assert free.error[0] == "timeout"
        # One that is not held and has more time has ended, so the held one's limit is long over.
        assert not held.done()
        wire.resume()
        assert (await held).error[0] == "timeout"


AFTER_THE_ANSWER = {
    "the same answer twice": frames(answer("ID"), answer("ID")),
    "output behind its answer": frames(answer("ID"), (output(), b"late")),
    "an acknowledgement behind the answer": frames(answer("ID"), {"op": "ack", "id": "ID", "n": 1}),
    "an answer to a call that ended": frames(answer("ID"), answer("ID", stdout="again")),
}


@pytest.mark.parametrize("name", AFTER_THE_ANSWER)
async def test_a_call_is_answered_once_and_whatever_follows_loses_the_sandbox(name):
    async with connected(Double(attacking(AFTER_THE_ANSWER[name]))) as wire:
        assert (await wire.call("exec", {}, timeout_s=20)).success
        await until(lambda: wire.lost)
        assert "not in flight" in wire.lost


STREAMED = {
    "more output than the window": (flood(output(), b"x" * 65_536), "more than the window"),
    "more output than the window in small pieces": (flood(output(), b"x" * 64), "more than the window"),
    "empty output without end": (flood(output()), "an empty piece"),
    "acknowledging more than was sent": (frames({"op": "ack", "id": "ID", "n": WINDOW}), "was not sent"),
    "acknowledging nothing": (frames({"op": "ack", "id": "ID", "n": 0}), "was not sent"),
    "acknowledging a negative number": (frames({"op": "ack", "id": "ID", "n": -5}), "was not sent"),
    "acknowledging true": (frames({"op": "ack", "id": "ID", "n": True}), "was not sent"),
    "acknowledging text": (frames({"op": "ack", "id": "ID", "n": "1"}), "was not sent"),
}


@pytest.mark.parametrize("name", STREAMED)
async def test_a_stalled_consumer_does_not_let_a_hostile_runner_fill_the_memory(name):
    attack, reason = STREAMED[name]

    async def stalled(_stream, _data):
        await asyncio.Event().wait()

    async def silent():
        await asyncio.Event().wait()
        yield b""

    tracemalloc.start()
    try:
        async with connected(Double(attacking(attack))) as wire:
            with pytest.raises(SandboxLost, match=reason):
                await wire.call("exec", {}, timeout_s=20, sink=stalled, source=silent())
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["a giant line", "an endless line", "more output than the limit", "deep nesting"])
async def test_what_a_hostile_runner_sends_takes_bounded_memory(name):
    attack, _ = ATTACKS[name]

    tracemalloc.start()
    try:
        async with connected(Double(attacking(attack))) as wire:
            with pytest.raises(SandboxLost):
                await wire.call("exec", {}, timeout_s=20)
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


BAD_STARTS = {
    "silence": (lambda _peer: None, "did not answer within 0.2 s"),
    "another protocol": (lambda peer: peer.send({"op": "ready", "protocol": 2}), "another protocol"),
    "no protocol": (lambda peer: peer.send({"op": "ready"}), "another protocol"),
    "a protocol of true": (lambda peer: peer.send({"op": "ready", "protocol": True}), "another protocol"),
    "a protocol that is a list": (lambda peer: peer.send({"op": "ready", "protocol": [1]}), "another protocol"),
    "a result first": (lambda peer: peer.send(answer("1")), "not in flight"),
    "output first": (lambda peer: peer.send(output(), b"x"), "not in flight"),
    "no JSON": (lambda peer: peer.raw(b"Segmentation fault\n"), "not JSON"),
    "its end": (lambda peer: peer.sock.shutdown(socket.SHUT_RDWR), "stream ended"),
    "a trickle": (lambda peer: [peer.raw(b"[") for _ in range(100)], "did not answer within"),
}


@pytest.mark.parametrize("name", BAD_STARTS)
async def test_a_runner_that_does_not_get_ready_is_no_sandbox(name):
    start, reason = BAD_STARTS[name]

    def script(peer):
        peer.take("hello")
        start(peer)

    with pytest.raises(SandboxUnavailable, match=reason):
        async with connected(Double(script), timeout_s=0.2):
            pass


async def test_a_greeting_that_fits_into_no_frame_is_told():
    double = Double(answering)
    double.hello["env"] = {"HUGE": "x" * MAX_LINE}
    with pytest.raises(SandboxUnavailable, match="could not be greeted"):
        async with connected(double):
            pass


async def test_an_opening_that_is_given_up_leaves_no_stream():
    greeted = threading.Event()

    def script(peer):
        peer.take("hello")
        greeted.set()

    double = Double(script)
    task = asyncio.create_task(connected(double).__aenter__())
    await until(greeted.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not double.thread.is_alive())
    assert double.closed == 1


# --- what is neutralised rather than lost ------------------------------------------------------------------------------


async def test_halves_of_surrogate_pairs_are_replaced_in_every_text():
    half = "a\ud800b"

    def script(peer):
        peer.greet()
        header, _ = peer.take()
        data = {"path": half, half: [half, {"deep": half}]}
        peer.send(answer(header["id"], stdout=half, stderr=half, data=data))
        header, _ = peer.take()
        failure = {"code": "not_found", "message": half}
        peer.send(answer(header["id"], success=False, exit_code=None, error=failure))

    async with connected(Double(script)) as wire:
        reply = await wire.call("exec", {}, timeout_s=20)
        assert (reply.stdout, reply.stderr) == ("a?b", "a?b")
        assert reply.data == {"path": "a?b", "a?b": ["a?b", {"deep": "a?b"}]}
        assert (await wire.call("exec", {}, timeout_s=20)).error == ("not_found", "a?b")


async def test_a_huge_result_of_honest_shape_is_taken():
    def script(peer):
        peer.greet()
        header, _ = peer.take()
        peer.send(answer(header["id"], data={"matches": ["x" * 100] * 9000}))

    async with connected(Double(script)) as wire:
        assert len((await wire.call("grep", {}, timeout_s=20)).data["matches"]) == 9000


async def test_a_result_that_trickles_in_is_taken():
    def script(peer):
        peer.greet()
        header, _ = peer.take()
        for byte in encode(answer(header["id"], stdout="slowly\n")):
            peer.raw(bytes([byte]))

    async with connected(Double(script)) as wire:
        assert (await wire.call("exec", {}, timeout_s=20)).stdout == "slowly\n"


async def test_invalid_utf8_ahead_of_an_answer_is_replaced():
    def script(peer):
        peer.greet()
        header, _ = peer.take()
        peer.send({"op": "output", "id": header["id"], "stream": "stderr"}, b"caf\xc3")
        peer.send({"op": "output", "id": header["id"], "stream": "stderr"}, b"\xa9 \xff")
        peer.send(answer(header["id"], stderr="!"))

    async with connected(Double(script)) as wire:
        assert (await wire.call("exec", {}, timeout_s=20)).stderr == "café \ufffd!"


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), float("nan"), {("a", 1): 2}])
async def test_arguments_that_do_not_travel_are_an_answer_and_cost_nothing(value):
    async with connected(Double(answering)) as wire:
        reply = await wire.call("exec", {"command": value}, timeout_s=20)
        assert reply.error[0] == "invalid_arguments"
        assert (await wire.call("exec", {}, timeout_s=20)).success


async def test_arguments_larger_than_a_frame_are_an_answer():
    async with connected(Double(answering)) as wire:
        reply = await wire.call("edit", {"old": "x" * MAX_LINE}, timeout_s=20)
        assert reply.error[0] == "invalid_arguments"
        assert "line of" in reply.error[1]


async def test_a_terminal_of_an_impossible_size_does_not_cost_the_sandbox(tmp_path):
    resizes: asyncio.Queue[Any] = asyncio.Queue()
    for size in ((0, 0), (-4, 10**9), (30, 90)):
        resizes.put_nowait(size)
    seen = bytearray()

    async def keep(_stream, data):
        seen.extend(data)

    async with real_runner(tmp_path) as wire:
        args = {"command": 'until [ "$(stty size)" = "30 90" ]; do sleep 0.01; done; stty size', "tty": True}
        reply = await wire.call("exec", args, timeout_s=20, sink=keep, resizes=resizes)
        assert reply.success, reply
        assert b"30 90" in seen


# --- many calls at once ------------------------------------------------------------------------------------------------


async def test_two_hundred_calls_at_once_are_each_answered_with_their_own(tmp_path):
    async with real_runner(tmp_path) as wire:
        calls = [wire.call("exec", {"command": f"echo {number}"}, timeout_s=60) for number in range(200)]
        replies = await asyncio.gather(*calls)
        assert [reply.stdout for reply in replies] == [f"{number}\n" for number in range(200)]
        assert wire.busy == 0
        await wire.quiet()


async def test_a_stalled_consumer_stops_neither_other_calls_nor_the_sandbox(tmp_path):
    released, taken = asyncio.Event(), bytearray()

    async def stalled(_stream, data):
        await released.wait()
        taken.extend(data)

    async with real_runner(tmp_path, output=8 << 20, grace_s=0.2) as wire:
        flooding = asyncio.create_task(
            wire.call("exec", {"command": "yes | head -c 3000000"}, timeout_s=0.5, sink=stalled)
        )
        for _ in range(3):
            assert (await wire.call("exec", {"command": "echo on"}, timeout_s=20)).stdout == "on\n"
        # Far beyond its time limit and the grace: its end waits behind output that our own side has not taken.
        done, _ = await asyncio.wait({flooding}, timeout=1.5)
        assert not done
        assert wire.lost is None
        released.set()
        reply = await flooding
        assert reply.error[0] == "timeout"
        assert len(taken) >= WINDOW
        assert (await wire.call("exec", {"command": "echo on"}, timeout_s=20)).stdout == "on\n"


async def test_output_keeps_its_order_and_arrives_whole_however_slow_the_consumer(tmp_path):
    taken = bytearray()

    async def slow(_stream, data):
        await asyncio.sleep(0)
        taken.extend(data)

    async with real_runner(tmp_path, output=64 << 20) as wire:
        reply = await wire.call("exec", {"command": "seq 400000"}, timeout_s=60, sink=slow)
        assert reply.success
        assert bytes(taken) == b"".join(b"%d\n" % number for number in range(1, 400001))


async def test_single_bytes_for_a_stalled_consumer_are_joined_in_the_order_of_their_stream():
    released, taken = asyncio.Event(), {"stdout": bytearray(), "stderr": bytearray()}
    pieces = []

    async def stalled(stream, data):
        await released.wait()
        pieces.append(len(data))
        taken[stream].extend(data)

    def script(peer):
        peer.greet()
        header, _ = peer.take()
        for number in range(3000):
            stream = "stderr" if number % 2 else "stdout"
            peer.send({"op": "output", "id": header["id"], "stream": stream}, b"%c" % (48 + number // 2 % 10))
        peer.send(answer(header["id"]))

    async with connected(Double(script)) as wire:
        task = asyncio.create_task(wire.call("exec", {}, timeout_s=20, sink=stalled))
        await until(lambda: wire._count and not wire.busy)
        released.set()
        assert (await task).success
    assert taken["stdout"] == taken["stderr"] == b"0123456789" * 150
    assert len(pieces) < 100


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_that_gives_up_leaves_no_process(tmp_path, streamed):
    async def drop(_stream, _data):
        pass

    command = "echo $$ > pid; trap '' TERM; setsid sleep 1000 & echo $! > child; mv pid ready; wait; sleep 1000"
    async with real_runner(tmp_path) as wire:
        call = wire.call("exec", {"command": command}, timeout_s=1000, sink=drop if streamed else None)
        task = asyncio.create_task(call)
        await until((tmp_path / "ready").exists)
        pids = [int((tmp_path / name).read_text()) for name in ("ready", "child")]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The call has ended inside by the time that the caller hears of it.
        assert not any(map(alive, pids))
        assert wire.lost is None
        assert (await wire.call("exec", {"command": "echo on"}, timeout_s=20)).stdout == "on\n"


async def test_a_cancelled_call_whose_output_nobody_takes_does_not_cost_the_sandbox(tmp_path):
    """Its last frame comes behind a window full of output: who waits for it must acknowledge what nobody wants."""
    begun = asyncio.Event()

    async def stalled(_stream, _data):
        begun.set()
        await asyncio.Event().wait()

    async with real_runner(tmp_path, output=64 << 20, grace_s=5) as wire:
        task = asyncio.create_task(wire.call("exec", {"command": "yes"}, timeout_s=1000, sink=stalled))
        await begun.wait()
        await until(lambda: wire._calls["1"]._intake._held >= WINDOW // 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.lost is None
        assert (await wire.call("exec", {"command": "echo on"}, timeout_s=20)).stdout == "on\n"


async def test_a_runner_that_does_not_end_a_cancelled_call_is_lost_even_if_nobody_waits_for_it():
    def script(peer):
        peer.greet()
        peer.take()

    async with connected(Double(script), grace_s=GRACE_S) as wire:
        task = asyncio.create_task(wire.call("exec", {}, timeout_s=1000))
        await until(lambda: wire.busy)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: wire.lost)
        assert "after it was cancelled" in wire.lost


async def test_an_answer_and_a_cancellation_at_the_same_time_leave_nothing_behind():
    async with connected(Double(answering)) as wire:
        for turns in range(60):
            task = asyncio.create_task(wire.call("exec", {}, timeout_s=1000))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled() or task.result().success
        assert wire.lost is None
        assert (await wire.call("exec", {}, timeout_s=20)).success


async def test_a_source_that_blocks_for_ever_does_not_keep_a_finished_call(tmp_path):
    closed = asyncio.Event()

    async def silent():
        try:
            yield b"one line\n"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with real_runner(tmp_path) as wire:
        reply = await wire.call("exec", {"command": "head -1"}, timeout_s=20, source=silent())
        assert reply.stdout == "one line\n"
        assert closed.is_set()


async def test_a_source_that_nobody_reads_does_not_keep_a_finished_call_and_is_closed(tmp_path):
    closed = asyncio.Event()

    async def endless():
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.set()

    async with real_runner(tmp_path) as wire:
        args = {"command": "sleep 0.2; echo done"}
        reply = await wire.call("exec", args, timeout_s=20, source=endless())
        assert reply.stdout == "done\n"
        assert closed.is_set()


async def test_a_source_that_raises_ends_the_call_and_the_caller_gets_that_very_exception(tmp_path):
    fault = OSError("the disk of the source")

    async def broken():
        yield b"x"
        raise fault

    async with real_runner(tmp_path) as wire:
        with pytest.raises(OSError, match="the disk") as caught:
            await wire.call("exec", {"command": "echo $$ > pid; cat; sleep 1000"}, timeout_s=1000, source=broken())
        assert caught.value is fault
        await until(lambda: not (tmp_path / "pid").exists() or not alive(int((tmp_path / "pid").read_text())))
        assert wire.lost is None


async def test_a_sink_that_raises_cancels_the_call_and_the_caller_gets_that_very_exception(tmp_path):
    fault = BrokenPipeError("the reader left")

    async def broken(_stream, _data):
        raise fault

    async with real_runner(tmp_path) as wire:
        with pytest.raises(BrokenPipeError) as caught:
            await wire.call("exec", {"command": "echo $$ > pid; exec yes"}, timeout_s=1000, sink=broken)
        assert caught.value is fault
        assert not alive(int((tmp_path / "pid").read_text()))
        assert (await wire.call("exec", {"command": "echo on"}, timeout_s=20)).stdout == "on\n"


async def test_a_sink_that_raises_on_the_last_of_the_output_is_heard_too(tmp_path):
    fault = BrokenPipeError("the reader left")

    async def broken(_stream, _data):
        await asyncio.sleep(0.3)
        raise fault

    async with real_runner(tmp_path) as wire:
        with pytest.raises(BrokenPipeError) as caught:
            await wire.call("exec", {"command": "echo last"}, timeout_s=20, sink=broken)
        assert caught.value is fault
        assert wire.lost is None


async def test_input_and_output_of_any_size_pass_through_byte_by_byte_the_same(tmp_path):
    content = os.urandom(5 << 20)
    taken = bytearray()

    async def source():
        yield content[: 3 << 20]
        yield b""
        yield content[3 << 20 :]

    async def keep(_stream, data):
        taken.extend(data)

    async with real_runner(tmp_path, output=16 << 20) as wire:
        reply = await wire.call("exec", {"command": "cat"}, timeout_s=60, source=source(), sink=keep)
        assert reply.success
        assert bytes(taken) == content


async def test_a_runner_that_is_killed_ends_every_call_in_it(tmp_path):
    async with real_runner(tmp_path) as wire:
        calls = [asyncio.create_task(wire.call("exec", {"command": "sleep 5"}, timeout_s=1000)) for _ in range(20)]
        await until(lambda: wire.busy == 20)
        os.kill(wire.ready["pid"], signal.SIGKILL)
        for ended in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(ended, SandboxLost)
        assert "stream ended" in wire.lost


async def test_quiet_waits_for_the_calls_that_are_in_flight(tmp_path):
    async with real_runner(tmp_path) as wire:
        await wire.quiet()
        task = asyncio.create_task(wire.call("exec", {"command": "until [ -e go ]; do :; done"}, timeout_s=60))
        await until(lambda: wire.busy)
        waiting = asyncio.create_task(wire.quiet())
        await asyncio.sleep(0)
        assert not waiting.done()
        (tmp_path / "go").touch()
        await waiting
        assert (await task).success


async def test_an_engines_own_framing_is_stripped_and_its_nonsense_loses_the_sandbox():
    from crabpot.runner.core.frames import FrameError
    from crabpot.wire.channel import Channel

    def decode(data):
        if b"poison" in data:
            raise FrameError("no frame of the engine's")
        return data

    def script(peer):
        peer.greet()
        peer.take()
        peer.raw(b"poison")

    double = Double(script)
    double.channel = Channel(sock=double.channel.sock, decode=decode)
    async with connected(double) as wire:
        with pytest.raises(SandboxLost, match="no frame of the engine's"):
            await wire.call("exec", {}, timeout_s=20)


async def test_what_a_call_held_is_gone_with_it_and_waits_for_no_collector(tmp_path):
    """A circle of references with a megabyte of output in it would stay until enough objects have been made."""
    async with real_runner(tmp_path, output=1 << 20) as wire:
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(30):
                reply = await wire.call("exec", {"command": "head -c 1000000 /dev/zero"}, timeout_s=20)
                assert len(reply.stdout) == 1_000_000
            del reply
            assert tracemalloc.get_traced_memory()[0] < 4 << 20
        finally:
            tracemalloc.stop()
            gc.enable()
