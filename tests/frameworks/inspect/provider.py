"""Inspect's sandboxes: ours and its own, and an evaluation whose scripted model calls tools."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironment, SandboxEnvironmentSpec
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

from crabpot.integrations.inspect import CrabpotConfig, CrabpotSandboxEnvironment
from tests.frameworks.providers import Provider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@modelapi(name="scripted")
class Scripted(ModelAPI):
    """Says what it was given, one after the other; Inspect's own mock would fetch a tokenizer from the internet."""

    def __init__(self, model_name: str, script: list[ModelOutput], **_: object) -> None:
        super().__init__(model_name)
        self._script = iter(script)

    async def generate(self, *_: object, **__: object) -> ModelOutput:
        return next(self._script)


def run(tools: list[object], *calls: tuple[str, dict[str, object]], config: CrabpotConfig | None = None) -> list[str]:
    """Run an evaluation whose model makes these calls; return what it reads of them."""
    script = [ModelOutput.for_tool_call("scripted", name, arguments) for name, arguments in calls]
    model = get_model("scripted/model", memoize=False, script=[*script, ModelOutput.from_content("scripted", "42")])
    sample = Sample("compute", target="42", files={"given.txt": "from the sample"}, setup="echo set up > ready")
    task = Task(
        dataset=[sample if config is None else Sample("compute", target="42")],
        solver=[use_tools(*tools), generate()],
        scorer=includes(),
        sandbox="crabpot" if config is None else SandboxEnvironmentSpec("crabpot", config),
    )
    (log,) = evaluate(task, model=model, display="none", log_dir="memory://logs")
    assert log.status == "success", log.error
    assert log.samples is not None
    said = [message for message in log.samples[0].messages if message.role == "tool"]
    return [message.error.message if message.error else message.text for message in said]


def said(command: str, **settings: Any) -> str:
    return run([bash(timeout=60)], ("bash", {"command": command}), config=CrabpotConfig(**settings))[0]


@asynccontextmanager
async def _opened(kind: type[SandboxEnvironment], config: CrabpotConfig | None) -> AsyncIterator[Provider]:
    made = await kind.sample_init("task", config, {})
    box = made["default"]

    async def shell(command: str) -> str:
        done = await box.exec(["sh", "-c", command])
        return done.stdout + done.stderr

    async def read(path: str) -> bytes:
        return await box.read_file(path, text=False)

    try:
        yield Provider(run=shell, read=read, write=box.write_file)
    finally:
        await kind.sample_cleanup("task", config, made, False)


def ours(**settings: Any) -> Any:
    return _opened(CrabpotSandboxEnvironment, CrabpotConfig(**settings))


def theirs(folder: str) -> Any:
    return _opened(LocalSandboxEnvironment, None)
