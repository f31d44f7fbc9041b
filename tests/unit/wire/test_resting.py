"""A principal that keeps the loop busy is read from in its turn: nothing is lost by that, and no call is late for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from crabpot.scheduling.fair_loop import FairLoop
from tests.support.runners import Double, answering, connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from crabpot.wire.calls import RunnerWire


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=FairLoop) as runner:
        return runner.run(work)


@asynccontextmanager
async def owing(debt_s: float, grace_s: float) -> AsyncIterator[RunnerWire]:
    """Connect a wire whose principal has used more of the loop than its share."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    async with connected(Double(answering), grace_s=grace_s) as wire:
        wire.principal = "busy"
        loop.charge("another", 0.0, lambda: None)
        assert loop.charge("busy", debt_s, lambda: None)
        yield wire


async def _answers() -> tuple[list[str], list[str]]:
    async with owing(0.2, 20.0) as wire:
        transport: Any = wire._transport
        seen: list[str] = []

        def spied(name: str) -> None:
            real = getattr(transport, name)

            def called() -> None:
                seen.append(name)
                real()

            setattr(transport, name, called)

        spied("pause_reading")
        spied("resume_reading")
        return [(await wire.call("exec", {}, timeout_s=60)).stdout for _ in range(2)], seen


def test_nothing_is_read_from_who_rests_until_its_turn_comes():
    answers, seen = run(_answers())
    assert answers == ["fine\n", "fine\n"]
    assert seen[:2] == ["pause_reading", "resume_reading"]


async def _late() -> str | None:
    async with owing(1000.0, 0.01) as wire:
        await wire.call("exec", {}, timeout_s=60)
        late = asyncio.create_task(wire.call("exec", {}, timeout_s=0.01))
        await asyncio.sleep(0.2)
        lost = wire.lost
        wire.lose("the test ended")
        await asyncio.gather(late, return_exceptions=True)
        return lost


def test_no_call_is_late_while_its_answer_is_not_read():
    assert run(_late()) is None
