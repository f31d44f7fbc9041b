"""Whoever causes work is charged for it, in whoever's step it is done."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.audit.store import AuditLog
from crabpot.decide.scope import OPERATOR, behind_it
from crabpot.scheduling.fair_loop import FairLoop, charged_to

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

WORK_S = 0.03


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=FairLoop) as runner:
        return runner.run(work)


def burn() -> None:
    end = time.thread_time() + WORK_S
    while time.thread_time() < end:
        pass


def owed() -> dict[str, float]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FairLoop)
    return {whose: use.owes_s for whose, use in loop._uses.items()}


async def in_the_step_of(principal: str | None, whose: str | None) -> dict[str, float]:
    async def step() -> None:
        with charged_to(whose):
            burn()

    with behind_it(principal):
        await asyncio.create_task(step())
    return owed()


def test_who_is_charged_by_name_pays_alone():
    owes = run(in_the_step_of("honest", "hostile"))
    assert owes["hostile"] > WORK_S / 2
    assert owes.get("honest", 0.0) < WORK_S / 4


@pytest.mark.parametrize("principal", ["hostile", None])
def test_nobody_pays_twice(principal):
    assert WORK_S / 2 < run(in_the_step_of(principal, "hostile"))["hostile"] < 1.5 * WORK_S


@pytest.mark.parametrize("whose", [None, OPERATOR])
def test_the_gateways_own_work_is_charged_to_nobody_else(whose):
    assert whose not in run(in_the_step_of(None, whose))


def test_a_thread_without_a_loop_charges_nobody():
    def work() -> None:
        with charged_to("hostile"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


async def described_by(log: AuditLog, next_one: str | None) -> dict[str, float]:
    """Return what is owed after a record of the hostile agent was described, in its own time or by whoever is next."""

    def describe() -> dict[str, Any]:
        burn()
        return {"kind": "call"}

    with behind_it("hostile"):
        log.record_soon(describe)
    if next_one is not None:
        with behind_it(next_one):
            log.record({"kind": "call"})
    async with asyncio.timeout(10):
        while "hostile" not in (owes := owed()):
            await asyncio.sleep(0)
    return owes


@pytest.mark.parametrize("next_one", [None, "honest", OPERATOR])
def test_what_a_call_has_described_for_the_log_is_charged_to_whoever_called(tmp_path: Path, next_one: str | None):
    log = AuditLog(str(tmp_path / "state"))
    log.open()
    owes = run(described_by(log, next_one))
    log.close()
    assert owes["hostile"] > WORK_S / 2
    assert sum(owes.values()) < 1.5 * WORK_S
