"""Inspect's own checks of a provider, and evaluations with a mock model."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent._human.install import install_human_agent
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, TaskState, generate, solver
from inspect_ai.tool import bash, bash_session, python, text_editor
from inspect_ai.util import (
    ExecCompleted,
    ExecRemoteAwaitableOptions,
    ExecStdout,
    SandboxEnvironmentSpec,
    SandboxUserUnsupportedError,
    sandbox,
)
from inspect_ai.util._sandbox._framework_directory import FrameworkDirectoryError
from inspect_ai.util._sandbox.environment import SandboxUnavailableError
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from crabpot.integrations.inspect import CrabpotConfig, CrabpotSandboxEnvironment
from tests.frameworks.inspect.provider import run

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
        refused = pytest.mark.xfail(reason=known, strict=True, raises=SandboxUserUnsupportedError)
        request.node.add_marker(refused)
    made = await CrabpotSandboxEnvironment.sample_init("task", None, {})
    yield made["default"]
    await CrabpotSandboxEnvironment.sample_cleanup("task", None, made, False)


pytestmark = pytest.mark.anyio


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


@solver
def remote_commands(seen: dict[str, object]):
    """Run commands that go on by themselves, as agents inside do, and connect a terminal."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        inside = sandbox()
        seen["awaited"] = await inside.exec_remote(
            ["sh", "-c", "cat; echo $A; exit 3"], ExecRemoteAwaitableOptions(input="in ", env={"A": "1"}), stream=False
        )
        process = await inside.exec_remote(["sh", "-c", "echo begun; sleep 0.5; echo done"])
        seen["events"] = [event async for event in process]
        endless = await inside.exec_remote(["sleep", "1000"])
        await endless.kill()
        seen["left"] = (await inside.exec(["pgrep", "-f", "sleep 1000"])).stdout
        seen["connection"] = await inside.connection()
        seen["typed"] = await asyncio.to_thread(typed_into, seen["connection"].command)
        with pytest.raises(SandboxUserUnsupportedError):
            await inside.connection(user="root")
        return state

    return solve


def typed_into(command: str) -> bytes:
    """Type into the terminal of a connection; return what it showed."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": "src"}
    with subprocess.Popen(shlex.split(command), stdin=theirs, stdout=theirs, env=env) as shell:
        os.close(theirs)
        os.write(ours, b"stty size; pwd; echo 4''2; exit\n")
        shown = bytearray()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        assert shell.wait(30) == 0
    os.close(ours)
    return bytes(shown)


def test_commands_of_their_own_life_and_a_terminal_are_offered(tmp_path) -> None:
    seen: dict[str, object] = {}
    script = [ModelOutput.from_content("scripted", "42")]
    task = Task(
        dataset=[Sample("compute", target="42")],
        solver=[remote_commands(seen), generate()],
        scorer=includes(),
        sandbox=SandboxEnvironmentSpec("crabpot", CrabpotConfig(limits={"memory": "512m"})),
    )
    model = get_model("scripted/model", memoize=False, script=script)
    (log,) = evaluate(task, model=model, display="none", log_dir="memory://logs")
    assert log.status == "success", log.error
    awaited = seen["awaited"]
    assert (awaited.returncode, awaited.stdout) == (3, "in 1\n")
    assert "".join(event.data for event in seen["events"] if isinstance(event, ExecStdout)) == "begun\ndone\n"
    assert isinstance(seen["events"][-1], ExecCompleted)
    assert seen["left"] == ""
    assert seen["connection"].type == "crabpot"
    assert b"/workspace" in seen["typed"]
    assert b"42" in seen["typed"]
    # Nothing is left of the sample.
    state = tmp_path / "state"
    assert os.listdir(state / "sandboxes") == os.listdir(state / "shells") == []


async def test_a_sandbox_that_died_is_unavailable_and_a_path_outside_is_refused(sandbox_env, anyio_backend) -> None:
    with pytest.raises(PermissionError):
        await sandbox_env.write_file("/etc/passwd", "x")
    with pytest.raises(PermissionError):
        await sandbox_env.read_file("../../root/.ssh/id_rsa")
    odd = "odd \n 'name' \" $(id) ü \x7f"
    await sandbox_env.write_file(odd, "kept")
    assert await sandbox_env.read_file(odd) == "kept"
    running = asyncio.create_task(sandbox_env.exec(["sleep", "60"]))
    await asyncio.sleep(0.5)
    # From outside: inside nothing can.
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    with pytest.raises(SandboxUnavailableError):
        await running


async def test_the_human_agent_is_told_that_it_cannot_be_installed(sandbox_env, anyio_backend) -> None:
    with pytest.raises(FrameworkDirectoryError, match=r"/opt.*Read-only file system"):
        await install_human_agent(None, [], None, False, sandbox_env)
