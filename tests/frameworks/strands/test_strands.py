"""Strands: the sandbox by itself, streamed, and an agent with a scripted model."""

from __future__ import annotations

import json

import pytest
from strands import Agent
from strands.models import Model
from strands.sandbox.types import ExecutionResult, StreamChunk

from crabpot.integrations.strands import CrabpotSandbox


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


async def test_commands_code_and_files_are_of_one_sandbox() -> None:
    sandbox = CrabpotSandbox()
    try:
        came = [one async for one in sandbox.execute_streaming("echo out; echo err >&2; exit 3", env={"A": "1"})]
        assert isinstance(came[-1], ExecutionResult)
        assert (came[-1].exit_code, came[-1].stdout, came[-1].stderr) == (3, "out\n", "err\n")
        assert {(one.stream_type, one.data) for one in came if isinstance(one, StreamChunk)} == {
            ("stdout", "out\n"),
            ("stderr", "err\n"),
        }
        ran = await sandbox.execute_code("print(6 * 7)", "python")
        assert ran.stdout == "42\n"
        await sandbox.write_file("a/raw", bytes(range(256)))
        assert await sandbox.read_file("a/raw") == bytes(range(256))
        assert [(one.name, one.is_dir, one.size) for one in await sandbox.list_files("a")] == [("raw", False, 256)]
        await sandbox.remove_file("a/raw")
        with pytest.raises(FileNotFoundError):
            await sandbox.read_file("a/raw")
        late = await sandbox.execute("sleep 60", timeout=0.5)
        assert "time limit" in late.stderr
        with pytest.raises(ValueError, match="cobol"):
            await sandbox.execute_code("x", "cobol; id")
    finally:
        await sandbox.close()


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


async def test_an_agent_works_in_the_sandbox_and_reads_refusals() -> None:
    sandbox = CrabpotSandbox()
    model = Scripted(
        ("sandbox_file_editor", {"command": "create", "path": "/workspace/sum.py", "file_text": "print(6 * 7)"}),
        ("sandbox_shell", {"command": "python sum.py"}),
        ("sandbox_shell", {"command": "cat /etc/shadow"}),
    )
    try:
        agent = Agent(model=model, sandbox=sandbox, callback_handler=None)
        result = await agent.invoke_async("go")
    finally:
        await sandbox.close()
    said = [
        str(block["toolResult"]) for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    assert "42" in said[1]
    assert "/etc/shadow" in said[2]
    assert str(result).strip() == "done"
