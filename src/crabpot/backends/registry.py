"""The backends of this build, and the choice of one for a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.errors import SandboxUnavailable
from crabpot.settings import Docker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.base import Backend, Clause, Opened
    from crabpot.spec.spec import SandboxSpec

# The order in which `auto` tries them.
AUTOMATIC = ("bubblewrap", "docker")


class Registry:
    """Backends by the word for them in the configuration."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._backends = dict(backends)

    def candidates(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Name the backends that a spec may be opened with, in order; settings that only docker knows mean docker."""
        if spec.backend != "auto":
            return (spec.backend,)
        limits = spec.limits
        only_docker = (
            spec.docker != Docker()
            or spec.network.kind in ("bridge", "named")
            or limits.io.read is not None
            or limits.io.write is not None
        )
        return ("docker",) if only_docker else AUTOMATIC

    async def choose(self, spec: SandboxSpec) -> tuple[Backend, tuple[Clause, ...]]:
        """Take the first that refuses no clause; SandboxUnavailable lists why each was passed over."""
        reasons = []
        for name in self.candidates(spec):
            backend = self._backends.get(name)
            if backend is None:
                reasons.append(f"{name}: not part of this build")
                continue
            clauses = await backend.probe(spec)
            refused = [clause for clause in clauses if clause.state == "refused"]
            if not refused:
                return backend, clauses
            reasons += [f"{name} refuses {clause.name}: {clause.how}" for clause in refused]
        raise SandboxUnavailable("no sandbox can be made as configured; " + "; ".join(reasons))

    async def open(self, spec: SandboxSpec) -> Opened:
        """Open a spec with the backend that takes it."""
        backend, _ = await self.choose(spec)
        return await backend.open(spec)

    async def clauses(self, spec: SandboxSpec) -> tuple[str, tuple[Clause, ...]]:
        """Say which backend would take a spec and how it keeps each promise; if none does, why the first does not."""
        try:
            backend, clauses = await self.choose(spec)
        except SandboxUnavailable:
            for name in self.candidates(spec):
                if name in self._backends:
                    return name, await self._backends[name].probe(spec)
            return "none", ()
        return backend.name, clauses
