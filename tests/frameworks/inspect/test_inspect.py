"""Inspect's own checks of a provider, and evaluations with a mock model."""

from __future__ import annotations

import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash, bash_session, python, text_editor
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from crabpot.integrations.inspect import CrabpotSandboxEnvironment

# Another user per call is refused, by the framework's own exception.
NOT_OFFERED = {"test_exec_as_user": "a sandbox has one user"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


@pytest.fixture
async def sandbox_env(request, anyio_backend):
    known = NOT_OFFERED.get(request.node.originalname)
    if known is not None:
        request.node.add_marker(pytest.mark.xfail(reason=known, strict=True))
    made = await CrabpotSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await CrabpotSandboxEnvironment.sample_cleanup("task", None, made, False)


pytestmark = pytest.mark.anyio


@modelapi(name="scripted")
class Scripted(ModelAPI):
    """Says what it was given, one after the other; Inspect's own mock would fetch a tokenizer from the internet."""

    def __init__(self, model_name: str, script: list[ModelOutput], **_: object) -> None:
        super().__init__(model_name)
        self._script = iter(script)

    async def generate(self, *_: object, **__: object) -> ModelOutput:
        return next(self._script)


def run(tools: list[object], *calls: tuple[str, dict[str, object]]) -> list[str]:
    """Run an evaluation whose model makes these calls; return what its tools said."""
    script = [ModelOutput.for_tool_call("scripted", name, arguments) for name, arguments in calls]
    model = get_model("scripted/model", memoize=False, script=[*script, ModelOutput.from_content("scripted", "42")])
    task = Task(
        dataset=[Sample("compute", target="42", files={"given.txt": "from the sample"}, setup="echo set up > ready")],
        solver=[use_tools(*tools), generate()],
        scorer=includes(),
        sandbox="crabpot",
    )
    (log,) = evaluate(task, model=model, display="none", log_dir="memory://logs")
    assert log.status == "success", log.error
    assert log.samples is not None
    return [message.text for message in log.samples[0].messages if message.role == "tool"]


def test_an_evaluation_runs_its_tools_in_the_sandbox() -> None:
    said = run(
        [bash(timeout=60), python(timeout=60)],
        ("bash", {"command": "cat given.txt ready; id -un"}),
        ("python", {"code": "print(6 * 7)"}),
    )
    assert said[0].split("\n")[0] == "from the sampleset up"
    assert "agent" in said[0]
    assert "42" in said[1]


def test_tools_that_inspect_puts_into_the_sandbox_run_there() -> None:
    said = run(
        [bash_session(), text_editor()],
        ("text_editor", {"command": "create", "path": "/workspace/made.txt", "file_text": "by the editor\n"}),
        ("bash_session", {"action": "type_submit", "input": "cat /workspace/made.txt"}),
    )
    assert "by the editor" in said[1]
