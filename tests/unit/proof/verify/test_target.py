"""How long an attack may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.proof.verify.target import Target
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path


async def test_whatever_is_attacked_beside_a_session_gets_the_time_that_a_slow_machine_needs(tmp_path: Path) -> None:
    bait: Any = None
    gateway = open_gateway("{}", str(tmp_path / "state"))
    try:
        target = Target(gateway, "agent:main:x", bait)
        target.pace = 7.0
        assert target.at_home("other").paced(20.0) == 140.0
        assert target.elsewhere("agent:main:y", gateway).paced(20.0) == 140.0
    finally:
        await gateway.close()
