"""Workspaces of Pydantic AI: ours and the framework's own for this machine, and an agent with a scripted model."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces.local import LocalWorkspaceBackend

from crabpot.integrations.pydantic_ai import CrabpotSandbox, CrabpotWorkspace
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def said(command: str, **settings: Any) -> str:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("shell", {"command": command})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    agent = Agent(FunctionModel(model), capabilities=[CrabpotSandbox(settings)])

    @agent.tool
    async def shell(ctx: RunContext[None], command: str) -> str:
        done = await ctx.workspace.run(command, shell=True)
        return f"{done.exit_code} {done.stdout}{done.stderr}"

    return agent.run_sync("go").output


def _shape(backend: Any, root: str = "") -> Provider:
    async def shell(command: str) -> str:
        done = await backend.run(command, shell=True)
        return done.stdout + done.stderr

    async def read(path: str) -> bytes:
        return await backend.read_bytes(os.path.join(root, path))

    async def write(path: str, content: bytes) -> None:
        await backend.write_bytes(os.path.join(root, path), content)

    return Provider(run=shell, read=read, write=write)


@asynccontextmanager
async def ours(**settings: Any) -> AsyncIterator[Provider]:
    workspace = CrabpotWorkspace(**settings)
    try:
        yield _shape(workspace)
    finally:
        await workspace.delete()


@asynccontextmanager
async def theirs(folder: str) -> AsyncIterator[Provider]:
    yield _shape(LocalWorkspaceBackend(folder), folder)
