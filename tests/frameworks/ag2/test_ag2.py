"""AG2: the sandbox by itself, and under the framework's own adapters."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest
from ag2 import Agent
from ag2.events import ToolCallEvent, ToolResultEvent
from ag2.testing import TestConfig
from ag2.tools import SandboxCodeTool, SandboxShellTool

from crabpot.integrations.ag2 import CrabpotSandbox


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


async def test_commands_and_files_are_of_one_sandbox() -> None:
    async with CrabpotSandbox() as sandbox:
        done = await sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], env={"A": "1"})
        assert (done.output, done.exit_code) == ("out\nerr", 3)
        assert (await sandbox.exec(["no-such-program"])).exit_code == 127
        late = await sandbox.exec(["sleep", "60"], timeout=0.5)
        assert late.exit_code == 124
        await sandbox.put_file(PurePosixPath("code.py"), b"print(6 * 7)")
        assert (await sandbox.exec(["python", "code.py"])).output == "42"
        await sandbox.remove_file(PurePosixPath("code.py"))
        await sandbox.remove_file(PurePosixPath("code.py"))
        with pytest.raises(ValueError, match="absolute"):
            await sandbox.put_file(PurePosixPath("/etc/x"), b"")


async def test_an_agent_works_in_the_sandbox_and_reads_refusals() -> None:
    async with CrabpotSandbox() as sandbox:
        model = TestConfig(
            ToolCallEvent("run_code", arguments=json.dumps({"code": "print(6 * 7)", "language": "python"})),
            ToolCallEvent("run_shell_command", arguments=json.dumps({"command": "cat /etc/shadow"})),
            "done",
        )
        agent = Agent("worker", config=model, tools=[SandboxCodeTool(sandbox), SandboxShellTool(sandbox)])
        reply = await agent.ask("go")
        said = [str(event) for event in await reply.history.get_events() if isinstance(event, ToolResultEvent)]
    assert "42" in said[0]
    assert "/etc/shadow" in said[1]
    assert reply.body == "done"
