"""The facts of one session's live sandbox, each beside what was promised; and the claim that they agree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.backends.linux.procs import NAMESPACES
from crabpot.decide import placement, sessions
from crabpot.errors import CrabpotError
from crabpot.proof.verify import facts as reading
from crabpot.proof.verify.claims import Group, Outcome, few
from crabpot.proof.verify.judging import judge

if TYPE_CHECKING:
    from crabpot.gateway import Gateway
    from crabpot.proof.verify.facts import Facts
    from crabpot.proof.verify.judging import Fact
    from crabpot.proof.verify.target import Target

claim = Group("escape by configuration")

_CLAUSES = (
    *("user", "namespaces", "network", "capabilities", "no-new-privileges", "seccomp", "filesystem", "tmp", "binds"),
    *("limits.memory", "limits.cpus", "limits.pids", "limits.memoryReservation", "limits.cpuShares", "limits.io"),
    *("limits.openFiles", "limits.fileSize", "limits.tmp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a live sandbox."""

    read: Facts
    facts: tuple[Fact, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the judged facts first, then all that was read."""
        return {"facts": [fact.as_json() for fact in self.facts], **self.read.as_json()}


async def look(gateway: Gateway, session: str) -> Look:
    """Look at a session's sandbox; CrabpotError if it has none or does not report."""
    key = sessions.parse(session, default_agent=gateway.settings.default_agent)
    agent = gateway.settings.agent(key.agent)
    placed = placement.decide(key, agent).answer
    if placed.scope_key is None:
        raise CrabpotError("this session runs on the host, where nothing is promised")
    execution = gateway.execution
    found = await reading.read(execution, agent, placed)
    spec, _ = execution.describe(agent, placed.scope_key)
    _, clauses = await execution.registry.clauses(spec)
    host = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    return Look(read=found, facts=tuple(judge(found, spec, clauses, host)))


@claim.about(*_CLAUSES)
async def gets_what_its_description_promises(target: Target) -> Outcome:
    """Namespaces, ids, capabilities, filter, mounts, limits, network: as the kernel has them, not as planned."""
    seen = await look(target.gateway, target.session)
    states = {state: [fact for fact in seen.facts if fact.state == state] for state in ("violated", "degraded")}
    violated = [f"{fact.clause}: {fact.what} is {fact.found}, not {fact.promised}" for fact in states["violated"]]
    weak = few([f"{fact.clause}: {fact.what}" for fact in states["degraded"]]) or "none"
    return Outcome(
        held=not violated,
        tried=f"compared {len(seen.facts)} facts, read inside and outside, with the spec",
        came_back=f"VIOLATED: {few(violated)}" if violated else f"each agrees; degraded, as announced: {weak}",
    )
