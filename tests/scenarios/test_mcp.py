"""`crabpot mcp`: a real client starts it, as Claude Code or Codex would, and nothing but the protocol is on its streams."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from tests.support.waiting import wait_until

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def upcall(program, *arguments, mode="legacy"):
    """Have a whole session with the SDK's client; give what each call gave."""
    first, *rest = program.argv
    started = StdioServerParameters(command=first, args=[*rest, "mcp", "--structured", *arguments], env=program.environ)

    async def talk():
        async with Client(stdio_client(started), mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            written = await client.call_tool("write", {"path": "notes.txt", "content": "hello\n"})
            read = await client.call_tool("read", {"path": "notes.txt"})
            ran = await client.call_tool("exec", {"command": "cat notes.txt"})
            return names, [one.structured_content for one in (written, read, ran)]

    return asyncio.run(asyncio.wait_for(talk(), 100))


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_reads_writes_and_runs_in_a_sandbox(crabpot, mode):
    crabpot.configure('{tools: {deny: ["edit"]}}')
    names, results = upcall(crabpot, "--session", "agent:main:mcp", mode=mode)
    assert names == ["read", "write", "apply_patch", "grep", "glob", "ls", "exec", "process"]
    assert [result["place"] for result in results] == ["sandbox"] * 3
    assert results[1]["data"]["content"] == results[2]["stdout"] == "hello\n"


def test_a_gateway_that_serves_is_used(placed):
    with placed.serving():
        _, results = upcall(placed, "--session", "agent:main:mcp", "--sender", "me")
        assert results[2]["stdout"] == "hello\n"
        assert (placed.workspace / "notes.txt").read_text() == "hello\n"
        calls = [json.loads(line) for line in placed("audit", "tail", "--json").out.splitlines()]
    assert {one["sender"] for one in calls if one["kind"] == "call"} == {"me"}
    # Its name starts every call's id: one gateway took them all.
    assert len({one["call"].split("-")[0] for one in calls if one["kind"] == "call"}) == 1


def test_standard_output_holds_lines_of_json_and_nothing_else(placed):
    lines = [
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "exec", "arguments": {"command": "echo x"}},
        },
    ]
    sent = "\n".join(["", *map(json.dumps, lines), "not json"]).encode()
    with placed.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        started.stdin.write(sent + b"\n")
        started.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(started.stdout.readline())
            answers[answer.get("id")] = answer
        started.stdin.close()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in started.stdout)
        assert started.wait(timeout=60) == 0
        assert b"Traceback" not in started.stderr.read()
    assert answers[2]["result"]["content"] == [{"type": "text", "text": "x"}]
    assert "structuredContent" not in answers[2]["result"]


def test_a_signal_ends_it_and_what_it_ran(placed):
    call = {"name": "exec", "arguments": {"command": "echo $$ > pid; sleep 1000"}}
    lines = [HELLO, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}]
    with placed.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        started.stdin.write("".join(json.dumps(line) + "\n" for line in lines).encode())
        started.stdin.flush()
        noted = placed.workspace / "pid"
        pid = int(wait_until(lambda: noted.exists() and noted.read_text().strip()))
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_configuration_to_paste_starts_this_very_program(crabpot, tmp_path):
    config = tmp_path / "mine.json5"
    config.write_text("{}")
    options = ("--session", "agent:ops:x", "--sender", "me", "--config", "mine.json5")

    def printed(client):
        return crabpot("mcp", "--print-config", client, *options, cwd=tmp_path).out

    generic = json.loads(printed("generic"))["mcpServers"]["crabpot"]
    assert os.path.isabs(generic["command"])
    assert generic["args"] == ["mcp", "--session", "agent:ops:x", "--sender", "me", "--config", str(config)]
    codex = tomllib.loads(printed("codex"))
    always = {"required": True, "default_tools_approval_mode": "approve", "startup_timeout_sec": 60}
    always["tool_timeout_sec"] = 3600
    assert codex["mcp_servers"]["crabpot"] == {**generic, **always}
    assert codex["features"] == {"shell_tool": False, "unified_exec": False}
    (pot,) = tomllib.loads(printed("codex-environment"))["environments"]
    assert (pot["program"], pot["args"][:3]) == (generic["command"], ["exec", "--session", "agent:ops:x"])
    assert pot["args"][-2:] == ["--", "codex exec-server --listen stdio"]
    assert pot["initialize_timeout_sec"] == 120
    assert json.loads(printed("openclaw").split("\n", 1)[1])["mcp"]["servers"]["crabpot"] == generic
    claude = printed("claude-code")
    assert f"claude mcp add --scope user crabpot -- {generic['command']} mcp" in claude
    assert json.loads(claude.split("# .mcp.json\n")[1])["mcpServers"]["crabpot"] == generic
    settings = json.loads(claude[claude.index("{") : claude.index("# .mcp.json")])
    assert settings["permissions"]["allow"] == ["mcp__crabpot"]
    assert {"Bash", "Read", "Write", "Edit"} <= set(settings["permissions"]["deny"])
    listed = subprocess.run([generic["command"], *generic["args"], "--help"], capture_output=True, check=True)
    assert b"--print-config" in listed.stdout


def test_an_unknown_client_and_an_empty_session_are_usage_errors(crabpot):
    assert "claude-code" in crabpot("mcp", "--print-config", "emacs").err
    assert crabpot("mcp", "--session", "").code == 2


ELEVATED = """{
  agents: {defaults: {sandbox: {workspace: "rw"}}},
  tools: {elevated: {enabled: true, patterns: ["id *"], approvalTimeout: 60}},
}"""


def approved(program, mode, *arguments):
    """Run one command that needs approval, with a person at the client who allows it; give the result and the questions."""
    first, *rest = program.argv
    started = StdioServerParameters(command=first, args=[*rest, "mcp", "--structured", *arguments], env=program.environ)
    asked = []

    async def person(_context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "allow once"})

    async def talk():
        async with Client(stdio_client(started), mode=mode, elicitation_callback=person) as client:
            ran = await client.call_tool("exec", {"command": "id -u"})
            return ran.structured_content

    return asyncio.run(asyncio.wait_for(talk(), 100)), asked


@pytest.fixture
def elevating(crabpot):
    crabpot.configure(ELEVATED)
    crabpot.workspace.mkdir(mode=0o755)
    # Root's sandboxes run as the owner of the workspace.
    if os.geteuid() == 0:
        for folder in (crabpot.home, *crabpot.home.parents[:2]):
            folder.chmod(0o755)
        os.chown(crabpot.workspace, 65534, 65534)
    return crabpot


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_client_that_was_opted_in_is_asked_and_its_person_lets_a_command_out(elevating, mode):
    result, asked = approved(elevating, mode, "--elicit")
    assert (result["place"], result["stdout"]) == ("host", f"{os.geteuid()}\n")
    assert len(asked) == 1
    assert "run on the HOST" in asked[0]


def test_the_same_through_a_gateway_that_serves(elevating):
    with elevating.serving():
        result, asked = approved(elevating, "legacy", "--elicit")
        assert (result["place"], len(asked)) == ("host", 1)
        answers = [json.loads(line) for line in elevating("audit", "tail", "--json").out.splitlines()]
    assert [one["by"] for one in answers if one["kind"] == "answer"] == ["mcp stdio"]


def test_without_the_operators_word_another_door_answers(elevating):
    def answer():
        waiting = wait_until(lambda: elevating("approvals", "list", "--json").out.strip() not in ("", "[]"), 60)
        assert waiting
        (request,) = json.loads(elevating("approvals", "list", "--json").out)
        assert elevating("approvals", "allow", request["id"]).code == 0

    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        result, asked = approved(elevating, "legacy")
        answering.result(timeout=60)
    assert (result["place"], asked) == ("host", [])
