"""Pydantic AI's own suite for workspace backends, whole, and an agent with a scripted model."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from crabpot.integrations.pydantic_ai import CrabpotSandbox, CrabpotWorkspace


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


class TestWorkspace(WorkspaceBackendSuite):
    @pytest.fixture
    def has_real_posix_shell(self) -> bool:
        return True

    @pytest.fixture
    async def backend(self):
        made = CrabpotWorkspace()
        yield made
        await made.delete()

    @pytest.fixture
    async def fresh_backend(self):
        made = []

        def fresh() -> CrabpotWorkspace:
            made.append(CrabpotWorkspace())
            return made[-1]

        yield fresh
        for one in made:
            await one.delete()

    @pytest.fixture
    async def attach_backend(self):
        made = []

        def attach(ref) -> CrabpotWorkspace:
            made.append(CrabpotWorkspace(ref))
            return made[-1]

        yield attach
        for one in made:
            await one.close()

    @pytest.fixture
    def destroy_environment(self):
        return lambda backend: backend.delete()


@pytest.mark.anyio
async def test_an_agent_works_in_the_sandbox_and_reads_refusals() -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("shell", {"command": "echo 6*7 > sum; cat sum; cat /etc/shadow"})])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    agent = Agent(FunctionModel(model), capabilities=[CrabpotSandbox()])

    @agent.tool
    async def shell(ctx: RunContext[None], command: str) -> str:
        done = await ctx.workspace.run(command, shell=True)
        return f"{done.exit_code} {done.stdout}{done.stderr}"

    result = await agent.run("compute")
    assert result.output.startswith("1 6*7")
    assert "/etc/shadow" in result.output
