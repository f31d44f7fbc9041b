"""The streams of one loop read into one buffer, and what belongs to one of them never becomes another's."""

from __future__ import annotations

import asyncio
import threading

from crabpot.runner.core.frames import encode
from tests.support.runners import Double, Peer, answering, connected


async def test_all_streams_of_a_loop_read_into_one_buffer():
    async with connected(Double(answering)) as one, connected(Double(answering)) as other:
        assert one.get_buffer(-1).obj is other.get_buffer(-1).obj


async def test_a_loop_of_another_thread_reads_into_another_buffer():
    async def buffer() -> object:
        async with connected(Double(answering)) as wire:
            return wire.get_buffer(-1).obj

    elsewhere = await asyncio.to_thread(asyncio.run, buffer())
    assert elsewhere is not await buffer()


async def test_half_a_frame_of_one_stream_is_not_completed_by_the_answer_of_another():
    answered = threading.Event()

    def slow(peer: Peer) -> None:
        peer.greet()
        header, _ = peer.take()
        frame = encode({"id": header["id"], "success": True, "stdout": "slow\n", "stderr": "", "exit_code": 0})
        peer.raw(frame[:20])
        answered.wait(20)
        peer.raw(frame[20:])
        peer.take()

    async with connected(Double(slow)) as torn, connected(Double(answering)) as whole:
        late = asyncio.ensure_future(torn.call("exec", {}, timeout_s=60))
        while not torn._reader.partial:
            await asyncio.sleep(0)
        assert (await whole.call("exec", {}, timeout_s=60)).stdout == "fine\n"
        answered.set()
        assert (await late).stdout == "slow\n"
