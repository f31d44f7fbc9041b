"""Whoever has the sandbox of a layer: asks git inside for commits, brings them, and lets go of the layer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from crabpot.decide import placement, sessions
from crabpot.errors import CrabpotError, HostRefused
from crabpot.host_commands import trusted
from crabpot.host_commands.git.clock import Clock
from crabpot.host_commands.git.inside import Inside
from crabpot.host_commands.git.outside import Bounds
from crabpot.host_commands.git.prepared import GitContext
from crabpot.host_commands.review import commits, person
from crabpot.host_commands.review.diffing import HostGit
from crabpot.layers.changes.tree import opened
from crabpot.presets import plan

if TYPE_CHECKING:
    from crabpot.layers.layer import Layer
    from crabpot.sandboxes.execution import Execution
    from crabpot.settings import AgentSettings, Settings

_LEAST_MEMORY = 1 << 30


class Holder(Protocol):
    """The gateway that has, or may open, the sandbox of a layer: this process, or one that serves."""

    async def commits(self, layer: Layer) -> list[dict[str, Any]]:
        """Return the commits of a layer in the shape of `changes list --json`."""

    async def land(self, layer: Layer) -> list[str]:
        """Bring the commits of a layer to the person's repository; return the names of the branches."""

    async def release(self, layer: Layer) -> None:
        """End the idle sandbox that has the layer mounted; LayerBusy if something runs in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSandboxes:
    """The sandboxes of this process."""

    settings: Settings
    execution: Execution

    async def commits(self, layer: Layer) -> list[dict[str, Any]]:
        """Return the commits of a layer; none where there can be none."""
        context = await self._inside(layer)
        return [] if context is None else [one.as_json() for one in await commits.made(context, layer)]

    async def land(self, layer: Layer) -> list[str]:
        """Bring the commits of a layer to the person's repository."""
        context = await self._inside(layer)
        branches = [] if context is None else await commits.made(context, layer)
        return await commits.land(context, layer, branches) if context is not None and branches else []

    async def release(self, layer: Layer) -> None:
        """End the idle sandbox that has the layer mounted."""
        await self.execution.release_layer(layer.scope_key)

    async def _inside(self, layer: Layer) -> GitContext | None:
        """Return git inside the sandbox of a layer, opened if need be; None if there is nothing to ask it."""
        agent, placed = _reviewed(self.settings, layer)
        if placed.scope_key != layer.scope_key or agent.sandbox.workspace != "review":
            return None
        if not await asyncio.to_thread(_may_have_commits, layer):
            return None
        live = await self.execution.acquire(agent, placed)
        by = host_git(self.execution.around.state, agent, layer)
        inside = Inside(wire=live.wire, cwd=None, clock=by.clock)
        await inside.repository()
        return GitContext(
            state=by.state,
            inside=inside,
            git=by.git,
            env={},
            root=layer.folder,
            folder=layer.folder,
            written=(),
            secrets=(),
            bounds=by.bounds,
            clock=by.clock,
        )


def placed_as(settings: Settings, session: str) -> tuple[AgentSettings, placement.Placement]:
    """Return the agent of a session, and where its calls run."""
    key = sessions.parse(session, default_agent=settings.default_agent)
    agent = settings.agent(key.agent)
    return agent, placement.decide(key, agent).answer


def _reviewed(settings: Settings, layer: Layer) -> tuple[AgentSettings, placement.Placement]:
    """Return who may open a layer; the settings of a run ended with it, and no file has them."""
    agent, placed = placed_as(settings, layer.session)
    if agent.id != plan.AGENT or agent.sandbox.workspace == "review":
        return agent, placed
    agent = plan.reopened(layer.folder)
    return agent, placement.decide(sessions.parse(layer.session), agent).answer


def host_git(state: str, agent: AgentSettings, layer: Layer) -> HostGit:
    """Return the host's git, as an agent's limits bound it."""
    try:
        git = trusted.find("git", trusted.path_of(agent), (layer.path, layer.folder))
    except HostRefused as error:
        raise CrabpotError(f"this needs git on the host: {error}") from None
    limits = agent.sandbox.limits
    bounds = Bounds(disk=limits.disk, memory=max(limits.memory, _LEAST_MEMORY))
    return HostGit(state=state, git=git, clock=Clock(limit_s=limits.time_ceiling), bounds=bounds)


def _may_have_commits(layer: Layer) -> bool:
    """Return whether the agent may have committed: where it did not, no sandbox is opened to ask."""
    if person.problem_with(layer.folder) is not None:
        return False
    with opened(layer.content) as content, opened(layer.folder) as host:
        return person.may_have_commits(content, host, overlay=layer.mechanism == "overlay")
