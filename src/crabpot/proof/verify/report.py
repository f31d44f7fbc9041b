"""One whole verification: what was attacked, what was found, and the digest that stands for it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crabpot.backends.base import Clause
    from crabpot.proof.verify.claims import Finding
    from crabpot.proof.verify.judging import Fact

STATES = ("held", "degraded", "open", "broken", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an auditor is shown."""

    session: str
    backend: str
    spec_hash: str
    clauses: tuple[Clause, ...]
    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    seconds: float
    version: str
    only: tuple[str, ...] = ()
    # The file that the session's settings come from, None for the defaults, and its SHA-256.
    config: str | None = None
    config_hash: str | None = None
    # Limits that were lowered for the attacks: name, the session's own, what was attacked.
    lowered: tuple[tuple[str, str, str], ...] = ()
    time: float = field(default_factory=time.time)

    @property
    def counts(self) -> dict[str, int]:
        """Return how many claims are in which state."""
        counted = Counter(finding.state for finding in self.findings)
        return {state: counted[state] for state in STATES}

    @property
    def failed(self) -> bool:
        """Return whether a person must look at this."""
        return any(finding.failed for finding in self.findings)

    @property
    def digest(self) -> str:
        """Return a digest of what was found: the same for the same answers, whenever and however fast they came."""
        states = [[finding.claim.name, finding.state] for finding in self.findings]
        text = json.dumps([self.backend, self.spec_hash, states], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def summary(self) -> dict[str, Any]:
        """Return what the audit log keeps, for `doctor` to tell its age; `only` names the part that was tried."""
        return {
            "time": round(self.time, 3),
            "version": self.version,
            "session": self.session,
            "backend": self.backend,
            "hash_of_spec": self.spec_hash,
            "only": list(self.only),
            "held": not self.failed,
            "claims": self.counts,
            "failed": [finding.claim.name for finding in self.findings if finding.failed],
            "digest": self.digest,
        }

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            **self.summary(),
            "machine": machine(),
            "config": {"file": self.config, "sha256": self.config_hash},
            "lowered": [{"limit": name, "own": own, "attacked": tried} for name, own, tried in self.lowered],
            "seconds": round(self.seconds, 1),
            "clauses": [clause.as_json() for clause in self.clauses],
            "facts": [fact.as_json() for fact in self.facts],
            "findings": [finding.as_json() for finding in self.findings],
        }


def machine() -> dict[str, str]:
    """Return on what machine it ran, and as which user."""
    who = os.uname()
    return {
        "host": who.nodename,
        "kernel": f"{who.sysname} {who.release} {who.machine}",
        "python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        "cores": str(os.cpu_count() or 1),
    }
