"""Environments of Google ADK: ours and the framework's own for this machine, and an agent with a scripted model."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.adk.agents import LlmAgent
from google.adk.environment import LocalEnvironment
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types

from crabpot.integrations.google_adk import CrabpotEnvironment
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Scripted(BaseLlm):
    """Calls what it was given, one after the other, and then says that it is done."""

    script: list[tuple[str, dict[str, str]]]

    async def generate_content_async(self, *_: object, **__: object):
        if self.script:
            name, args = self.script.pop(0)
            part = types.Part.from_function_call(name=name, args=args)
        else:
            part = types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(environment: CrabpotEnvironment, *script: tuple[str, dict[str, str]]) -> list[str]:
    """Run an agent whose model makes these calls; return what it reads of them."""
    toolset = EnvironmentToolset(environment=environment)
    agent = LlmAgent(name="worker", model=Scripted(model="scripted", script=list(script)), tools=[toolset])
    try:
        events = await InMemoryRunner(agent=agent).run_debug("go", quiet=True)
    finally:
        await environment.close()
    assert events[-1].content.parts[0].text == "done"
    return [str(answer.response) for event in events for answer in event.get_function_responses()]


def said(command: str, **settings: Any) -> str:
    return asyncio.run(run(CrabpotEnvironment(**settings), ("Execute", {"command": command})))[0]


@asynccontextmanager
async def _opened(environment: Any) -> AsyncIterator[Provider]:
    await environment.initialize()

    async def shell(command: str) -> str:
        done = await environment.execute(command)
        return done.stdout + done.stderr

    async def read(path: str) -> bytes:
        return await environment.read_file(Path(path))

    async def write(path: str, content: bytes) -> None:
        await environment.write_file(Path(path), content)

    try:
        yield Provider(run=shell, read=read, write=write)
    finally:
        await environment.close()


def ours(**settings: Any) -> Any:
    return _opened(CrabpotEnvironment(**settings))


def theirs(folder: str) -> Any:
    return _opened(LocalEnvironment(working_dir=Path(folder)))
