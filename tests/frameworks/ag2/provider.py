"""Sandboxes of AG2: ours and the framework's own for this machine, and an agent with a scripted model."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ag2 import Agent
from ag2.events import ToolCallEvent, ToolResultEvent
from ag2.testing import TestConfig
from ag2.tools import SandboxShellTool
from ag2.tools.sandbox.local import LocalSandbox

from crabpot.integrations.ag2 import CrabpotSandbox
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def said(command: str, **settings: Any) -> str:
    async def asked() -> str:
        async with CrabpotSandbox(**settings) as sandbox:
            call = ToolCallEvent("run_shell_command", arguments=json.dumps({"command": command}))
            agent = Agent("worker", config=TestConfig(call, "done"), tools=[SandboxShellTool(sandbox)])
            reply = await agent.ask("go")
            assert reply.body == "done"
            events = await reply.history.get_events()
            (result,) = [event.result for event in events if isinstance(event, ToolResultEvent)]
            return "".join(part.content for part in result.parts)

    return asyncio.run(asked())


@asynccontextmanager
async def _opened(sandbox: Any) -> AsyncIterator[Provider]:
    async def shell(command: str) -> str:
        return (await sandbox.exec(["sh", "-c", command])).output

    async def write(path: str, content: bytes) -> None:
        await sandbox.put_file(PurePosixPath(path), content)

    try:
        yield Provider(run=shell, write=write)
    finally:
        await sandbox.aclose()


def ours(**settings: Any) -> Any:
    return _opened(CrabpotSandbox(**settings))


def theirs(folder: str) -> Any:
    return _opened(LocalSandbox(folder))
