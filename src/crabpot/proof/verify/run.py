"""Carry out attacks, one after the other, and report what came of each."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot.proof.verify.bait import laid_out
from crabpot.proof.verify.catalogue import chosen
from crabpot.proof.verify.claims import HAND_OFF, Finding, NotCarriedOut, Opened
from crabpot.proof.verify.target import Target

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from crabpot.gateway import Gateway
    from crabpot.proof.verify.claims import Claim

# No attack needs longer, but where the machine is slow; one that does counts as not carried out.
_LONGEST_S = 90.0


@asynccontextmanager
async def targets(
    open_gateway: Callable[[], Gateway],
    session: str = "agent:main:verify",
    other: str = "agent:main:verify-neighbour",
    *,
    guarded: tuple[str, ...] = (),
) -> AsyncIterator[Target]:
    """Lay out the bait, then open a gateway, and yield a session of it to attack, with a neighbour."""
    async with laid_out() as bait:
        gateway = open_gateway()
        try:
            yield Target(gateway, session, bait, other=Target(gateway, other, bait), guarded=guarded)
        finally:
            await gateway.close()


async def verify(
    target: Target,
    *,
    only: Collection[str] | None = None,
    begins: Callable[[Claim], None] | None = None,
    progress: Callable[[Finding], None] | None = None,
) -> list[Finding]:
    """Attack, and return one finding for each claim: those named in `only` (claims or groups), or all.

    A session on the host is refused: there is nothing to break out of, and the attacks would hit the host.
    """
    _ = target.spec
    await target.measure()
    findings = []
    for claim in chosen(only):
        if begins is not None:
            begins(claim)
        finding = await to_its_end(claim, target)
        findings.append(finding)
        if progress is not None:
            progress(finding)
    return findings


async def to_its_end(claim: Claim, target: Target) -> Finding:
    """Carry out an attack, and once more if it failed where the machine had become slower than its clocks knew."""
    finding = await carry_out(claim, target)
    before = target.pace
    if not isinstance(finding.result, NotCarriedOut):
        return finding
    await target.measure()
    return finding if target.pace <= before else await carry_out(claim, target)


async def carry_out(claim: Claim, target: Target) -> Finding:
    """Carry out the attack of one claim."""
    if given_away := target.gives_away(claim):
        return Finding(claim=claim, result=Opened(by=given_away), seconds=0.0)
    began = time.perf_counter()
    result: Finding | None = None
    attacked = target.handing_off() if claim.group == HAND_OFF else target
    try:
        async with asyncio.timeout(_LONGEST_S * target.pace):
            outcome = await claim.attack(attacked)
        degraded = None if outcome.held else await attacked.degraded(claim.excused_by)
        result = Finding(claim=claim, result=outcome, seconds=time.perf_counter() - began, degraded=degraded)
    except NotCarriedOut as error:
        reason = error
    except TimeoutError:
        reason = NotCarriedOut(f"the attack did not end within {_LONGEST_S * target.pace:.0f} s")
    except Exception as error:  # noqa: BLE001  a mistake in one attack must not hide what the others found
        reason = NotCarriedOut(f"{type(error).__name__}: {error}")
    finally:
        if attacked is not target:
            await attacked.stop()
    return result or Finding(claim=claim, result=reason, seconds=time.perf_counter() - began)
