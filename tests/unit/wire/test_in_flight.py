"""What one call may hold of its output, and how it is handed on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabpot.runner.core.frames import ACK_EVERY, WINDOW, FrameError
from crabpot.wire.flow import PIECE, Intake, Window, pieces
from crabpot.wire.in_flight import InFlight


def in_flight(sink=None, *, keep=1 << 20, acknowledged=None):
    told = acknowledged if acknowledged is not None else []
    return InFlight("1", sink, keep=keep, acknowledge=lambda _call, size: told.append(size))


async def nowhere(_stream, _data):
    pass


async def test_single_bytes_of_three_streams_are_joined_once_there_are_many():
    call = in_flight(nowhere)
    for number in range(300_000):
        call.receive(("stdout", "stderr", "content")[number % 3], b"x")
    assert len(call._queue) < 70
    assert sum(len(data) for _, data in call._queue) == 300_000


async def test_a_single_stream_of_single_bytes_is_joined_too():
    call = in_flight(nowhere)
    for _ in range(100_000):
        call.receive("stdout", b"x")
    assert len(call._queue) < 70


async def test_few_pieces_stay_apart_and_in_order():
    taken = []

    async def keep(stream, data):
        taken.append((stream, data))

    call = in_flight(keep)
    for number in range(20):
        call.receive("stderr" if number % 2 else "stdout", b"%d" % number)
    call.end_output()
    await call.pump(keep)
    assert taken == [("stderr" if number % 2 else "stdout", b"%d" % number) for number in range(20)]


async def test_what_is_discarded_is_acknowledged_and_what_follows_as_well():
    acknowledged: list[Any] = []
    call = in_flight(nowhere, acknowledged=acknowledged)
    for _ in range(16):
        call.receive("stdout", b"x" * ACK_EVERY)
    assert acknowledged == []
    assert call.behind
    call.discard()
    assert not call.behind
    assert sum(acknowledged) == 16 * ACK_EVERY == WINDOW
    for _ in range(100):
        call.receive("content", b"x" * ACK_EVERY)
    assert sum(acknowledged) == 116 * ACK_EVERY


async def test_a_pump_whose_call_was_discarded_ends():
    gate = asyncio.Event()

    async def gated(_stream, _data):
        await gate.wait()

    call = in_flight(gated)
    call.receive("stdout", b"x")
    pump = asyncio.create_task(call.pump(gated))
    await asyncio.sleep(0)
    call.discard()
    gate.set()
    await pump


async def test_kept_output_is_limited_over_both_streams():
    call = in_flight(keep=100)
    call.receive("stdout", b"x" * 60)
    call.receive("stderr", b"x" * 40)
    assert call.kept == {"stdout": b"x" * 60, "stderr": b"x" * 40}
    with pytest.raises(FrameError, match="limit"):
        call.receive("stderr", b"x")


async def test_a_window_lets_no_more_out_than_was_taken():
    window = Window()
    for _ in range(WINDOW // PIECE):
        await window.take(PIECE)
    blocked = asyncio.create_task(window.take(1))
    await asyncio.sleep(0)
    assert not blocked.done()
    window.acknowledged(1)
    await blocked


@pytest.mark.parametrize("size", [0, -1, True, 1.0, "1", None, WINDOW + 1, 11])
async def test_an_acknowledgement_of_what_was_not_sent_is_refused(size):
    window = Window()
    await window.take(10)
    with pytest.raises(FrameError):
        window.acknowledged(size)


async def test_unacknowledged_rests_never_keep_the_next_piece_waiting():
    """The receiver acknowledges in steps: a sender that waited for a whole window would wait for ever."""
    window = Window()
    intake = Intake(window.acknowledged)
    for size in [ACK_EVERY - 1, *[PIECE] * 50, 1, *[PIECE - 1] * 50]:
        async with asyncio.timeout(5):
            await window.take(size)
        intake.arrived(size)
        intake.took(size)


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_pieces_are_the_whole_in_order(size):
    data = bytes(number % 251 for number in range(size))
    cut = list(pieces(data))
    assert b"".join(cut) == data
    assert max(map(len, cut), default=0) <= PIECE
