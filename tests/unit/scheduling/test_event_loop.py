"""Coroutines that get an event loop when they ask for one."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from crabpot.scheduling.event_loop import in_loop, run


def is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_what_waits_for_nothing_ends_without_an_event_loop() -> None:
    async def inner() -> bool:
        return is_in_loop()

    async def outer() -> tuple[bool, bool]:
        return is_in_loop(), await inner()

    assert run(outer()) == (False, False)


def test_what_asks_for_an_event_loop_goes_on_in_one_and_is_not_begun_again() -> None:
    begun = []

    async def waits() -> str:
        await in_loop()
        async with asyncio.timeout(60):
            return await asyncio.to_thread(lambda: "from a thread")

    async def outer() -> tuple[bool, str, bool]:
        begun.append(is_in_loop())
        return begun[0], await waits(), is_in_loop()

    assert run(outer()) == (False, "from a thread", True)
    assert begun == [False]


def test_in_an_event_loop_it_may_be_asked_for_again_and_again() -> None:
    async def waits() -> int:
        for _ in range(3):
            await in_loop()
        return len(await asyncio.gather(*(asyncio.sleep(0) for _ in range(3))))

    assert run(waits()) == asyncio.run(waits()) == 3


@pytest.mark.parametrize("waits", [0, 1, 2])
def test_an_error_comes_out_from_before_and_from_after(waits: int) -> None:
    async def fails() -> None:
        for _ in range(waits):
            await in_loop()
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        run(fails())


def test_asyncio_is_not_imported_before_it_is_needed() -> None:
    code = """
import sys
from crabpot.scheduling.event_loop import in_loop, run
async def answers(): return "asyncio" in sys.modules
async def waits(): await in_loop(); return "asyncio" in sys.modules
print(run(answers()), run(waits()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
