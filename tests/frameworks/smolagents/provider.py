"""Executors of smolagents: ours and the framework's own, and a code agent with a scripted model."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from smolagents import CodeAgent
from smolagents.local_python_executor import LocalPythonExecutor
from smolagents.models import ChatMessage, Model

from crabpot.integrations.smolagents import CrabpotExecutor
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Scripted(Model):
    """Writes the code that it was given, one step after the other."""

    def __init__(self, *steps: str) -> None:
        super().__init__()
        self._steps = iter(steps)

    def generate(self, *_: object, **__: object) -> ChatMessage:
        return ChatMessage(role="assistant", content=f"Thought: next\n<code>\n{next(self._steps)}\n</code>")


def shell(command: str) -> str:
    """Return code that runs shell text, and prints its output."""
    return (
        "import subprocess\n"
        f"done = subprocess.run({command!r}, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n"
        "print(done.stdout.decode())"
    )


def said(command: str, **settings: Any) -> str:
    executor = CrabpotExecutor(**settings)
    try:
        agent = CodeAgent(tools=[], model=Scripted(shell(command), "final_answer(1)"), executor=executor)
        assert agent.run("go") == 1
        return str([step.dict() for step in agent.memory.steps])
    finally:
        executor.cleanup()


def _shape(executor: Any, *, waiting: bool) -> Provider:
    async def called(code: str) -> str:
        return (executor(code) if waiting else await asyncio.to_thread(executor, code)).logs

    return Provider(run=lambda command: called(shell(command)), nothing=lambda: called("1 + 1"))


@asynccontextmanager
async def ours(*, waiting: bool = False, **settings: Any) -> AsyncIterator[Provider]:
    executor = CrabpotExecutor(timeout=3600, **settings)
    try:
        yield _shape(executor, waiting=waiting)
    finally:
        executor.cleanup()


@asynccontextmanager
async def theirs(folder: str) -> AsyncIterator[Provider]:
    executor = LocalPythonExecutor([])
    executor.send_tools({})
    yield _shape(executor, waiting=True)
