"""An attack that is cut short leaves a sandbox in which it can be made again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.proof.verify.attacks.arguments import cannot_win_a_race_against_the_file_tools
from crabpot.proof.verify.target import Target
from tests.support.backends import need
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "agent:main:main"


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


@dataclass
class Bait:
    secret: str = "of the host"


async def test_a_race_that_is_cut_short_ends_what_swaps(open_folder: Path) -> None:
    text = json.dumps({"agents": {"defaults": {"sandbox": {"backend": "bubblewrap"}}}})
    gateway = open_gateway(text, str(open_folder / "state"))

    async def swappers() -> list[dict[str, Any]]:
        listed = await gateway.call(SESSION, "process", action="list")
        return [one for one in listed.data["processes"] if one["running"]]

    try:
        bait: Any = Bait()
        attack = asyncio.ensure_future(cannot_win_a_race_against_the_file_tools(Target(gateway, SESSION, bait)))
        async with asyncio.timeout(60.0):
            while not await swappers():
                assert not attack.done()
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        assert await swappers() == []
    finally:
        await gateway.close()
