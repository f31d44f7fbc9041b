"""The backends of this build, and the choice of one for a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.backends.linux import procs
from crabpot.errors import SandboxUnavailable
from crabpot.scheduling.event_loop import in_loop
from crabpot.settings import Docker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.backends.base import Backend, Clause, Sandbox
    from crabpot.layers.layer import Mechanism
    from crabpot.spec.spec import SandboxSpec

    # Called for each sandbox that opened: what it is, who made it, how its clauses are kept, and what the kernel says.
    OnOpened = Callable[[SandboxSpec, str, tuple[Clause, ...], Mapping[str, str]], None]

# The order in which `auto` tries them.
AUTOMATIC = ("bubblewrap", "docker")


class Deferred:
    """A backend that is made, and whose code is loaded, on first use: most calls never need it."""

    def __init__(self, name: str, make: Callable[[], Backend]) -> None:
        self.name = name
        self._make = make
        self._made: Backend | None = None

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Probe with it."""
        await in_loop()
        return await self._backend().probe(spec)

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:
        """Ask it how it puts a folder under review."""
        return await self._backend().mechanism(spec)

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """Have it open a sandbox."""
        return await self._backend().open(spec)

    async def close(self) -> None:
        """End what it keeps, if it was ever used."""
        if self._made is not None:
            await self._made.close()

    def _backend(self) -> Backend:
        if self._made is None:
            self._made = self._make()
        return self._made


def _only_dockers(spec: SandboxSpec) -> str | None:
    """Return which setting of a spec means docker where no backend is named, or None."""
    if spec.network.kind == "bridge":
        return 'network "bridge" is docker\'s ("internet", public addresses without the LAN, is any backend\'s)'
    if spec.network.kind == "named":
        return f'network "{spec.network.name}" is docker\'s'
    if spec.limits.io.read is not None or spec.limits.io.write is not None:
        # Bubblewrap keeps it where it has a control group, and opens without it where not: that is nobody's wish.
        return 'limits.io is kept wherever docker runs (backend: "bubblewrap" keeps it with a control group)'
    return "the settings below docker are docker's" if spec.docker != Docker() else None


class Registry:
    """Backends by their name in the configuration."""

    def __init__(self, backends: Mapping[str, Backend], on_opened: OnOpened | None = None) -> None:
        self._backends = dict(backends)
        self._on_opened = on_opened

    def candidates(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Return the backends that a spec may be opened with, in order; docker-only settings mean docker."""
        if spec.backend != "auto":
            return (spec.backend,)
        return ("docker",) if _only_dockers(spec) else AUTOMATIC

    async def choose(self, spec: SandboxSpec) -> tuple[Backend, tuple[Clause, ...]]:
        """Return the first that refuses no clause; SandboxUnavailable lists why each was passed over."""
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
        dockers = _only_dockers(spec) if spec.backend == "auto" else None
        means = f"{dockers}, so backend auto means docker; " if dockers else ""
        raise SandboxUnavailable(f"no sandbox can be made as configured; {means}{'; '.join(reasons)}")

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:
        """Return how the backend that takes a spec puts its folder under review."""
        backend, _ = await self.choose(spec)
        return await backend.mechanism(spec)

    async def open(self, spec: SandboxSpec) -> tuple[Sandbox, tuple[Clause, ...]]:
        """Open a spec with the backend that takes it, and tell how each promise is kept."""
        backend, clauses = await self.choose(spec)
        sandbox = await backend.open(spec)
        try:
            if self._on_opened is not None:
                self._on_opened(spec, backend.name, clauses, procs.look(sandbox.pid))
        except BaseException:
            await sandbox.close()
            raise
        return sandbox, clauses

    async def close(self) -> None:
        """End what the backends keep between openings."""
        for backend in self._backends.values():
            await backend.close()

    async def clauses(self, spec: SandboxSpec) -> tuple[str, tuple[Clause, ...]]:
        """Return which backend would take a spec and how it keeps each clause; if none does, why the first does not."""
        try:
            backend, clauses = await self.choose(spec)
        except SandboxUnavailable:
            for name in self.candidates(spec):
                if name in self._backends:
                    return name, await self._backends[name].probe(spec)
            return "none", ()
        return backend.name, clauses
