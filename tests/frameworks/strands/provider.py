"""Sandboxes of Strands: ours and what the framework has for this machine, and an agent with a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from strands import Agent
from strands.models import Model
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

from crabpot.integrations.strands import CrabpotSandbox
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Scripted(Model):
    """Calls what it was given, one after the other, and then says that it is done."""

    def __init__(self, *script: tuple[str, dict[str, str]]) -> None:
        self._script = list(script)

    def update_config(self, **_: object) -> None: ...

    def get_config(self) -> dict[str, object]:
        return {}

    def structured_output(self, *_: object, **__: object):
        raise NotImplementedError

    async def stream(self, *_: object, **__: object):
        yield {"messageStart": {"role": "assistant"}}
        name, args = self._script.pop(0) if self._script else (None, {})
        begun = {} if name is None else {"toolUse": {"name": name, "toolUseId": f"call-{len(self._script)}"}}
        delta = {"text": "done"} if name is None else {"toolUse": {"input": json.dumps(args)}}
        yield {"contentBlockStart": {"start": begun}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if name is None else "tool_use"}}


async def run(sandbox: CrabpotSandbox, *script: tuple[str, dict[str, str]]) -> list[str]:
    """Run an agent whose model makes these calls; return what it reads of them."""
    try:
        agent = Agent(model=Scripted(*script), sandbox=sandbox, callback_handler=None)
        result = await agent.invoke_async("go")
    finally:
        await sandbox.close()
    assert str(result).strip() == "done"
    return [
        str(block["toolResult"]) for message in agent.messages for block in message["content"] if "toolResult" in block
    ]


def said(command: str, **settings: Any) -> str:
    return asyncio.run(run(CrabpotSandbox(**settings), ("sandbox_shell", {"command": command})))[0]


def _shape(sandbox: Any, root: str) -> Provider:
    async def shell(command: str) -> str:
        done = await sandbox.execute(command)
        return done.stdout + done.stderr

    async def read(path: str) -> bytes:
        return await sandbox.read_file(os.path.join(root, path))

    async def write(path: str, content: bytes) -> None:
        await sandbox.write_file(os.path.join(root, path), content)

    return Provider(run=shell, read=read, write=write)


@asynccontextmanager
async def ours(**settings: Any) -> AsyncIterator[Provider]:
    sandbox = CrabpotSandbox(**settings)
    try:
        yield _shape(sandbox, "/workspace")
    finally:
        await sandbox.close()


@asynccontextmanager
async def theirs(folder: str) -> AsyncIterator[Provider]:
    yield _shape(NotASandboxLocalEnvironment(), folder)
