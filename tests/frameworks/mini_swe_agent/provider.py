"""Environments of mini-swe-agent: ours and the framework's own, and its agent with its own deterministic model."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

from crabpot.integrations.mini_swe_agent import CrabpotEnvironment
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def said(command: str, **settings: Any) -> str:
    environment = CrabpotEnvironment(settings=settings)
    model = DeterministicModel(outputs=[make_output("next", [{"command": one}]) for one in (command, command)])
    try:
        agent = DefaultAgent(model, environment, system_template="s", instance_template="i", step_limit=1)
        agent.run("go")
        return str(agent.messages)
    finally:
        environment.cleanup()


def _shape(environment: Any, *, waiting: bool) -> Provider:
    async def shell(command: str) -> str:
        action = {"command": command}
        done = environment.execute(action) if waiting else await asyncio.to_thread(environment.execute, action)
        return done["output"] + done["exception_info"]

    return Provider(run=shell)


@asynccontextmanager
async def ours(*, waiting: bool = False, **settings: Any) -> AsyncIterator[Provider]:
    environment = CrabpotEnvironment(settings=settings, timeout=3600)
    try:
        yield _shape(environment, waiting=waiting)
    finally:
        environment.cleanup()


@asynccontextmanager
async def theirs(folder: str) -> AsyncIterator[Provider]:
    yield _shape(LocalEnvironment(cwd=folder), waiting=True)
