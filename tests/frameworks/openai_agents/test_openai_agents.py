"""OpenAI Agents: a scripted model through manifest, shell, patch, terminal, snapshots and resume, exposed ports."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path

import pytest
from agents.run_config import RunConfig
from agents.sandbox import Dir, LocalSnapshotSpec, Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExposedPortUnavailableError,
    InvalidManifestPathError,
    WorkspaceReadNotFoundError,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

import crabpot
from agents import Runner
from crabpot.integrations.openai_agents import CrabpotSandboxClient, CrabpotSandboxClientOptions

PATCH = "*** Begin Patch\n*** Update File: notes/hello.txt\n@@\n-hello\n+hello crab\n*** End Patch\n"


@pytest.fixture
def client(tmp_path):
    return CrabpotSandboxClient(state=str(tmp_path / "state"))


def manifest():
    return Manifest(
        entries={"notes": Dir(children={"hello.txt": File(content=b"hello\n")})}, environment={"value": {"WHO": "crab"}}
    )


async def test_a_scripted_agent_goes_through_manifest_shell_terminal_and_patch(client, tmp_path) -> None:
    def call(name, number, **arguments):
        return [function_call(name, arguments, call_id=f"call-{number}")]

    model = ScriptedModel(
        [
            call("exec_command", 1, cmd="cat notes/hello.txt; echo $WHO; exit 3"),
            call("exec_command", 2, cmd="read line; echo got $line; sleep 300", tty=True, yield_time_ms=1000),
            {"responder": answer_terminal},
            [ResponseCustomToolCall(type="custom_tool_call", name="apply_patch", input=PATCH, call_id="call-4")],
            call("exec_command", 5, cmd="cat notes/hello.txt"),
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(name="a", model=model, default_manifest=manifest(), capabilities=[Shell(), Filesystem()])
    result = await Runner.run(agent, "go", run_config=RunConfig(sandbox=SandboxRunConfig(client=client)))
    assert result.final_output == "done"
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert "hello\ncrab" in outputs[0].replace("\r", "")
    assert "3" in outputs[0]
    assert "got abc" in outputs[2]
    assert "hello crab" in outputs[4]
    assert crabpot.named_sandboxes(state=str(tmp_path / "state")) == []


def answer_terminal(call):
    """Write to the terminal that the command before has named."""
    number = re.findall(r"session ID (\d+)", json.dumps(call.input, default=str))[-1]
    return [
        function_call(
            "write_stdin", {"session_id": int(number), "chars": "abc\n", "yield_time_ms": 1000}, call_id="call-3"
        )
    ]


async def test_files_patches_and_what_is_refused(client) -> None:
    session = await client.create(manifest=manifest())
    async with session:
        assert (await session.read(Path("notes/hello.txt"))).read() == b"hello\n"
        await session.write(Path("odd \n name"), io.BytesIO(b"\0" * 3_000_000))
        assert len((await session.read(Path("odd \n name"))).read()) == 3_000_000
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("none"))
        with pytest.raises((InvalidManifestPathError, WorkspaceReadNotFoundError)):
            await session.read(Path("../../etc/shadow"))
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 100", timeout=1)
        assert (await session.exec("echo out; exit 4")).exit_code == 4
        assert {entry.path.rpartition("/")[2] for entry in await session.ls(".")} >= {"notes"}
    await client.delete(session)


async def test_a_snapshot_and_the_sandbox_itself_are_resumed(client, tmp_path) -> None:
    spec = LocalSnapshotSpec(base_path=tmp_path / "snapshots")
    session = await client.create(manifest=manifest(), snapshot=spec)
    async with session:
        await session.write(Path("kept"), io.BytesIO(b"yes"))
    payload = client.serialize_session_state(session.state)
    again = await client.resume(client.deserialize_session_state(payload))
    async with again:
        assert (await again.read(Path("kept"))).read() == b"yes"
        assert (await again.read(Path("notes/hello.txt"))).read() == b"hello\n"
    await client.delete(again)
    assert crabpot.named_sandboxes(state=str(tmp_path / "state")) == []
    fresh = await client.resume(client.deserialize_session_state(payload))
    async with fresh:
        assert (await fresh.read(Path("kept"))).read() == b"yes"
    await client.delete(fresh)


async def test_an_exposed_port_is_reached_on_the_loopback(client) -> None:
    session = await client.create(options=CrabpotSandboxClientOptions(exposed_ports=(8123,)))
    async with session:
        await session.write(Path("page"), io.BytesIO(b"hello"))
        started = await session.pty_exec_start("python3 -m http.server 8123", yield_time_s=0.3)
        assert started.process_id is not None
        endpoint = await session.resolve_exposed_port(8123)
        for _ in range(600):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            writer.write(b"GET /page HTTP/1.0\r\n\r\n")
            answer = await reader.read()
            writer.close()
            if answer.endswith(b"hello"):
                break
            await asyncio.sleep(0.1)
        assert answer.endswith(b"hello")
        with pytest.raises(ExposedPortUnavailableError):
            await session.resolve_exposed_port(9)
    await client.delete(session)
