"""The turns of a command and its sandbox: however they end, the sandbox was frozen as often as it was thawed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from crabpot.host_commands.alternation import Alternation

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slow:
    """A sandbox that freezes and thaws slowly, as an engine's does."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def freeze(self) -> None:
        await self._take("freeze")

    async def thaw(self) -> None:
        await self._take("thaw")

    async def _take(self, name: str) -> None:
        self.begun.set()
        await self.goes_on.wait()
        self.done.append(name)


@pytest.fixture
def command() -> Iterator[int]:
    """Start a command that sleeps, and return its process id."""
    with subprocess.Popen(["sleep", "1000"]) as started:
        yield started.pid
        started.kill()


async def unchanged() -> None:
    """Find what was checked as it was."""


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_turn_that_is_cancelled_half_way_leaves_the_sandbox_frozen(command: int, cancels: int) -> None:
    sandbox = Slow()
    taking = asyncio.create_task(Alternation(sandbox, unchanged, waits=lambda: False).take(command))
    await sandbox.begun.wait()
    for _ in range(cancels):
        taking.cancel()
        await asyncio.sleep(0)
    assert not taking.done()
    sandbox.goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert sandbox.done == ["thaw", "freeze"]
    os.kill(command, 0)
