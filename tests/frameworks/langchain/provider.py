"""Backends of deep agents: ours and the framework's own for this machine, and an agent with a scripted model."""

from __future__ import annotations

import asyncio
import posixpath
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from deepagents import create_deep_agent
from deepagents.backends.local_shell import LocalShellBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

from crabpot.integrations.langchain import CrabpotSandbox
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Scripted(GenericFakeChatModel):
    """Says what it was given, one after the other."""

    def bind_tools(self, *_: object, **__: object):
        return self


def run(backend: CrabpotSandbox, *script: tuple[str, dict[str, Any]]) -> list[str]:
    """Run an agent whose model makes these calls; return what it reads of them."""
    messages = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(at)}])
        for at, (name, args) in enumerate(script)
    ]
    model = Scripted(messages=iter([*messages, AIMessage("done")]))
    result = create_deep_agent(model=model, backend=backend).invoke({"messages": [("user", "go")]})
    assert result["messages"][-1].content == "done"
    return [message.text for message in result["messages"] if isinstance(message, ToolMessage)]


def said(command: str, **settings: Any) -> str:
    with CrabpotSandbox(**settings) as backend:
        return run(backend, ("execute", {"command": command}))[0]


def _shape(backend: Any, root: str, *, waiting: bool) -> Provider:
    """Return it; `waiting` calls it in this thread, as a program without an event loop would."""

    async def called(method: Any, *args: Any) -> Any:
        return method(*args) if waiting else await asyncio.to_thread(method, *args)

    async def shell(command: str) -> str:
        return (await called(backend.execute, command)).output

    async def write(path: str, content: bytes) -> None:
        (done,) = await called(backend.upload_files, [(posixpath.join(root, path), content)])
        if done.error:
            raise OSError(done.error)

    async def read(path: str) -> bytes:
        (done,) = await called(backend.download_files, [posixpath.join(root, path)])
        if done.error:
            raise OSError(done.error)
        return done.content

    return Provider(run=shell, read=read, write=write)


@asynccontextmanager
async def ours(*, waiting: bool = False, **settings: Any) -> AsyncIterator[Provider]:
    with CrabpotSandbox(**settings) as backend:
        yield _shape(backend, "/workspace", waiting=waiting)


@asynccontextmanager
async def theirs(folder: str) -> AsyncIterator[Provider]:
    backend = LocalShellBackend(folder, virtual_mode=False, inherit_env=True)
    yield _shape(backend, folder, waiting=True)
