"""The backends of this build, and the choice of one for a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.backends.linux import procs
from crabpot.errors import SandboxUnavailable
from crabpot.scheduling.event_loop import in_loop
from crabpot.settings import Docker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.backends.base import Backend, Clause, Opened
    from crabpot.spec.spec import SandboxSpec

    # Told of each sandbox that opened: what it is, who made it, how the promises are kept, and what the kernel says.
    Told = Callable[[SandboxSpec, str, tuple[Clause, ...], Mapping[str, str]], None]

# The order in which `auto` tries them.
AUTOMATIC = ("bubblewrap", "docker")


class Deferred:
    """A backend that is made, and whose code is loaded, when it is first asked: most calls never get to it."""

    def __init__(self, name: str, make: Callable[[], Backend]) -> None:
        self.name = name
        self._make = make
        self._made: Backend | None = None

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Ask it."""
        await in_loop()
        return await self._backend().probe(spec)

    async def open(self, spec: SandboxSpec) -> Opened:
        """Have it open a sandbox."""
        return await self._backend().open(spec)

    def _backend(self) -> Backend:
        if self._made is None:
            self._made = self._make()
        return self._made


def _only_dockers(spec: SandboxSpec) -> str | None:
    """Say which setting of a spec no other backend knows, or None."""
    if spec.network.kind == "bridge":
        return 'network "bridge" is docker\'s ("internet", public addresses without the LAN, is any backend\'s)'
    if spec.network.kind == "named":
        return f'network "{spec.network.name}" is docker\'s'
    if spec.limits.io.read is not None or spec.limits.io.write is not None:
        return "limits.io is docker's"
    return "the settings below docker are docker's" if spec.docker != Docker() else None


class Registry:
    """Backends by the word for them in the configuration."""

    def __init__(self, backends: Mapping[str, Backend], told: Told | None = None) -> None:
        self._backends = dict(backends)
        self._told = told

    def candidates(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Name the backends that a spec may be opened with, in order; settings that only docker knows mean docker."""
        if spec.backend != "auto":
            return (spec.backend,)
        return ("docker",) if _only_dockers(spec) else AUTOMATIC

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
        dockers = _only_dockers(spec) if spec.backend == "auto" else None
        means = f"{dockers}, so backend auto means docker; " if dockers else ""
        raise SandboxUnavailable(f"no sandbox can be made as configured; {means}{'; '.join(reasons)}")

    async def open(self, spec: SandboxSpec) -> Opened:
        """Open a spec with the backend that takes it, and tell how each promise is kept."""
        backend, clauses = await self.choose(spec)
        opened = await backend.open(spec)
        try:
            if self._told is not None:
                self._told(spec, backend.name, clauses, procs.look(opened.pid))
        except BaseException:
            await opened.close()
            raise
        return opened

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
