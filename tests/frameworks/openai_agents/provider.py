"""Sandbox clients of OpenAI Agents: ours and the framework's own for this machine, and a scripted model."""

from __future__ import annotations

import asyncio
import io
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.run_config import RunConfig
from agents.sandbox import SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.testing import ScriptedModel, assistant_message, function_call

from agents import Runner
from crabpot.integrations.openai_agents import CrabpotSandboxClient
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def said(command: str, **settings: Any) -> str:
    call = function_call("exec_command", {"cmd": command}, call_id="1")
    model = ScriptedModel([[call], [assistant_message("done")]])
    agent = SandboxAgent(name="worker", model=model, capabilities=[Shell()])
    config = RunConfig(sandbox=SandboxRunConfig(client=CrabpotSandboxClient(**settings)), tracing_disabled=True)
    result = asyncio.run(Runner.run(agent, "go", run_config=config))
    assert result.final_output == "done"
    (output,) = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return output


@asynccontextmanager
async def _opened(client: Any) -> AsyncIterator[Provider]:
    session = await client.create()

    async def shell(command: str) -> str:
        done = await session.exec(command)
        return (done.stdout + done.stderr).decode()

    async def write(path: str, content: bytes) -> None:
        await session.write(Path(path), io.BytesIO(content))

    async def read(path: str) -> bytes:
        return (await session.read(Path(path))).read()

    try:
        async with session:
            yield Provider(run=shell, read=read, write=write)
    finally:
        await client.delete(session)


def ours(**settings: Any) -> Any:
    return _opened(CrabpotSandboxClient(**settings))


def theirs(folder: str) -> Any:
    return _opened(UnixLocalSandboxClient())
