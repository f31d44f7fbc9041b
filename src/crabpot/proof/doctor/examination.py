"""One examination: everything read, everything judged, and the backend that `auto` would choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError, SandboxUnavailable
from crabpot.proof.doctor import cluster, kernel, machine, places, programs
from crabpot.proof.doctor.lines import Line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.backends.bubblewrap.backend import Bubblewrap
    from crabpot.backends.docker.backend import Docker
    from crabpot.backends.kubernetes.backend import Kubernetes as Clusters
    from crabpot.backends.registry import Registry
    from crabpot.settings import Kubernetes, Settings
    from crabpot.spec.binds import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """What an examination needs to know of this invocation. Settings that did not load are a finding as well."""

    settings: Settings | CrabpotError
    around: Surroundings
    registry: Registry
    bubblewrap: Bubblewrap
    docker: Docker
    kubernetes: Clusters

    async def examine(self) -> AsyncIterator[Line]:
        """Yield line after line. Trying out each bwrap comes first: what the kernel allows shows in that."""
        bwraps, failure = await machine.bubblewraps(self.bubblewrap)
        for line in kernel.look(replace(machine.kernel(), sandboxes=failure is None)):
            yield line
        for line in programs.bubblewraps(bwraps, failure):
            yield line
        needed, image = self._docker_wanted()
        for line in programs.engine(await machine.engine(self.docker, image), needed=needed):
            yield line
        async for line in self._clusters():
            yield line
        for line in places.look(machine.own(self.around.config or None, self.around.state)):
            yield line
        yield await self._recommended()

    def _docker_wanted(self) -> tuple[bool, str]:
        from crabpot.settings import Sandbox  # noqa: PLC0415

        if isinstance(self.settings, CrabpotError):
            return False, Sandbox().docker.image
        agents = [self.settings.defaults, *self.settings.entries.values()]
        chosen = [agent.sandbox for agent in agents if agent.sandbox.backend == "docker"]
        return bool(chosen), (chosen[0] if chosen else self.settings.defaults.sandbox).docker.image

    async def _clusters(self) -> AsyncIterator[Line]:
        """Yield the lines of each cluster that an agent's sandboxes are in; most machines know of none."""
        if isinstance(self.settings, CrabpotError):
            return
        agents = [self.settings.defaults, *self.settings.entries.values()]
        seen: list[Kubernetes] = []
        for agent in agents:
            chosen = agent.sandbox.kubernetes
            if agent.sandbox.backend != "kubernetes" or chosen in seen:
                continue
            seen.append(chosen)
            for line in cluster.look(await machine.cluster(self.kubernetes, chosen)):
                yield line

    async def _recommended(self) -> Line:
        from crabpot.spec.build import build  # noqa: PLC0415

        said: dict[str, Any] = {"area": "crabpot", "name": "backend"}
        if isinstance(self.settings, CrabpotError):
            fix = str(self.settings)
            return Line(**said, state="problem", says="the configuration does not load, and nothing runs", fix=fix)
        agent = self.settings.agent(self.settings.default_agent)
        if agent.sandbox.mode == "off":
            says = 'sandbox mode is "off": every session of the default agent runs on the host'
            return Line(**said, state="warning", says=says, fix="crabpot config set agents.defaults.sandbox.mode all")
        try:
            spec = build(agent, f"agent:{agent.id}", self.around)
            backend, clauses = await self.registry.choose(spec)
        except (SandboxUnavailable, ValueError) as refusal:
            return Line(**said, state="problem", says="no sandbox can be made, so no call will run", fix=str(refusal))
        weak = [clause.name for clause in clauses if clause.state != "enforced"]
        says = f"{backend.name} is what a session gets; every promise enforced"
        if not weak:
            return Line(**said, state="ok", says=says)
        return Line(**said, state="ok", says=f"{says} but {', '.join(weak)} (crabpot explain)")
