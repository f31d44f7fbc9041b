"""MCP as streamable HTTP: the same tools, whose they are by token and header, and nobody else's session."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import asynccontextmanager, suppress

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from crabpot.audit.reading import AuditReader
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.routes import mcp
from tests.support.waiting import until

S = "agent:main:main"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def talking(made, token, mode, person=None, **headers):
    given = {"Authorization": f"Bearer {token}", "Crabpot-Structured": "true", **headers}
    async with (
        httpx2.AsyncClient(headers=given, timeout=30) as http,
        Client(
            streamable_http_client(f"{made.url}/mcp", http_client=http), mode=mode, elicitation_callback=person
        ) as client,
    ):
        yield client


@pytest.fixture(params=["legacy", "auto"])
def mode(request):
    return request.param


async def test_an_agent_reads_writes_runs_and_is_denied_in_its_session(door, mode):
    async with door('{tools: {deny: ["edit"]}}') as made:
        token = made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:1",), sender="telegram:7")
        told = []

        async def progress(_amount, _total, message):
            told.append(message)

        async with talking(made, token, mode) as client:
            assert "edit" not in [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("write", {"path": "a", "content": "one\n"})
            assert (await client.call_tool("read", {"path": "a"})).content[0].text == "one\n"
            ran = await client.call_tool("exec", {"command": "cat a; sleep 0.2; echo two"}, progress_callback=progress)
            assert ran.structured_content["stdout"] == "one\ntwo\n"
            assert told == ["one\n", "two\n"]
            assert (await client.call_tool("edit", {})).structured_content["error"]["code"] == "denied"
        assert {(one["session"], one["sender"]) for one in await recorded_calls(made)} == {
            ("agent:ops:1", "telegram:7")
        }


async def recorded_calls(made):
    await made.made.audit.durable()  # An answer by HTTP does not wait for the disk.
    return [one for one in AuditReader(made.made.state).last(20) if one["kind"] == "call"]


@pytest.mark.parametrize("asked", ["", "false", "1"])
async def test_results_are_text_alone_unless_data_is_asked_for(door, mode, asked):
    async with door() as made:
        token = made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:1",))
        async with talking(made, token, mode, **{"Crabpot-Structured": asked}) as client:
            assert all(tool.output_schema is None for tool in (await client.list_tools()).tools)
            ran = await client.call_tool("exec", {"command": "echo one; seq 20000; echo last"})
    assert ran.structured_content is None
    assert ran.content[0].text.startswith("one\n")
    assert re.search(
        r"last\n\[(all of it is in /tmp/stdout-\w+.txt, for read and grep|the rest was not kept)\]", ran.content[0].text
    )


async def test_the_header_names_one_of_the_tokens_sessions_and_no_other(door, mode):
    async with door() as made:
        token = made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:*",))
        async with talking(made, token, mode, **{"Crabpot-Session": "agent:ops:2"}) as client:
            assert not (await client.call_tool("ls", {})).is_error
        for headers in ({}, {"Crabpot-Session": S}):
            async with talking(made, token, mode, **headers) as client:
                with pytest.raises(MCPError, match="session"):
                    await client.call_tool("ls", {})
        assert [one["session"] for one in await recorded_calls(made)] == ["agent:ops:2"]


async def test_an_agents_token_is_kept_off_the_host_and_from_keys_that_name_no_session(door, mode):
    text = (
        '{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}}, entries: {ops: {sandbox: {mode: "non-main"}}}}}'
    )
    async with door(text) as made:
        token = made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:*",))
        async with talking(made, token, mode, **{"Crabpot-Session": "agent:ops:main"}) as client:
            assert (await client.list_tools()).tools == []
            refused = (await client.call_tool("exec", {"command": "id"})).structured_content["error"]
            assert (refused["code"], "--allow-host" in refused["message"]) == ("denied", True)
        async with talking(made, token, mode, **{"Crabpot-Session": "agent:ops:"}) as client:
            with pytest.raises(MCPError, match="agent:ID:NAME"):
                await client.call_tool("exec", {"command": "id"})
        assert made.made.execution.fleet.listed() == []


async def test_a_protocol_session_belongs_to_the_token_that_began_it(door):
    async with door() as made:
        first = made.client(made.tokens.add("first", Role.AGENT, sessions=("agent:ops:1",)))
        second = made.client(made.tokens.add("second", Role.AGENT, sessions=("agent:ops:1",)))
        begun = await first.post("/mcp", json=HELLO, headers=ACCEPT)
        assert begun.status_code == 200
        held = {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        assert (await second.post("/mcp", json=ask, headers=held)).status_code == 404
        assert (await second.delete("/mcp", headers=held)).status_code == 404
        assert (await first.post("/mcp", json=ask, headers=held)).status_code == 200


async def test_a_session_that_was_deleted_counts_no_more(door, monkeypatch):
    monkeypatch.setattr(mcp, "_MOST_SESSIONS", 3)
    async with door() as made:
        client = made.client(made.tokens.add("bot", Role.AGENT, sessions=("agent:ops:1",)))

        async def begin() -> dict[str, str]:
            begun = await client.post("/mcp", json=HELLO, headers=ACCEPT)
            return {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}

        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        oldest = await begin()
        for _ in range(3):
            assert (await client.delete("/mcp", headers=await begin())).status_code == 200
        assert (await client.post("/mcp", json=ask, headers=oldest)).status_code == 200
        for _ in range(3):
            await begin()
        assert (await client.post("/mcp", json=ask, headers=oldest)).status_code == 404


async def test_a_token_that_begins_and_deletes_sessions_keeps_none_and_is_kept_waiting(door, monkeypatch):
    monkeypatch.setattr(mcp, "_MOST_SESSIONS", 3)
    async with door() as made:
        busy = made.client(made.tokens.add("busy", Role.AGENT, sessions=("agent:ops:1",)))
        other = made.client(made.tokens.add("other", Role.AGENT, sessions=("agent:ops:2",)))
        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        begun = await other.post("/mcp", json=HELLO, headers=ACCEPT)
        others = {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        times = mcp._MOST_SESSIONS + 8
        began = time.monotonic()
        for _ in range(times):
            begun = await busy.post("/mcp", json=HELLO, headers=ACCEPT)
            ended = await busy.delete("/mcp", headers={**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]})
            assert ended.status_code == 200
        # A session that is deleted counts no more, but to have begun it does.
        assert time.monotonic() - began > 4 / mcp._BEGINNINGS_PER_S
        assert (await other.post("/mcp", json=ask, headers=others)).status_code == 200


async def test_a_client_that_cancels_or_vanishes_ends_its_call(door, mode):
    async with door() as made:
        token = made.tokens.rotate("operator")
        async with talking(made, token, mode) as client:
            running = asyncio.create_task(client.call_tool("exec", {"command": "echo $$ > pid; sleep 1000"}))
            while (await client.call_tool("read", {"path": "pid"})).is_error:
                await asyncio.sleep(0.01)
            pid = int((await client.call_tool("read", {"path": "pid"})).content[0].text)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await until(lambda: "cancelled" in errors(made))
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_connection_that_breaks_ends_its_call(door):
    async with door() as made:
        leaving = made.client(made.tokens.rotate("operator"))
        begun = await leaving.post("/mcp", json=HELLO, headers=ACCEPT)
        held = {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        call = {"name": "exec", "arguments": {"command": "echo $$ > pid; sleep 1000"}}
        ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        asking = asyncio.create_task(leaving.post("/mcp", json=ask, headers=held))
        path = f"/v1/sessions/{S}/files/pid"
        while not (await made.operator.get(path)).content.strip().isdigit():
            await asyncio.sleep(0.01)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await leaving.aclose()
        await until(lambda: "cancelled" in errors(made))


def errors(made):
    return [one["error"] for one in AuditReader(made.made.state).last(100) if one.get("tool") == "exec"]


ELEVATED = """{
  agents: {defaults: {workspace: "WS", sandbox: {workspace: "rw"}}},
  tools: {elevated: {enabled: true, patterns: ["id *"], approvalTimeout: 30}},
}"""


@pytest.mark.parametrize("elicits", [True, False])
async def test_a_client_is_asked_for_approvals_only_where_its_token_says_so(door, mode, elicits):
    asked = []

    async def person(_context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "allow once"})

    async with door(ELEVATED) as made:
        made.made.workspace.mkdir()
        token = made.tokens.add("bot", Role.AGENT, sessions=("agent:main:x",), elicits=elicits)
        async with talking(made, token, mode, person) as client:
            result = (await client.call_tool("exec", {"command": "id -u"})).structured_content
        assert (result["place"], len(asked)) == (("host", 1) if elicits else ("none", 0))


async def test_what_one_token_was_asked_another_cannot_answer(door):
    async with door(ELEVATED) as made:
        made.made.workspace.mkdir()
        first = made.tokens.add("first", Role.AGENT, sessions=("agent:main:x",), elicits=True)
        second = made.tokens.add("second", Role.AGENT, sessions=("agent:main:x",), elicits=True)

        async def person(_context, _params):
            raise AssertionError("driven by hand")

        async with talking(made, first, "auto", person) as one, talking(made, second, "auto", person) as other:
            call = ("exec", {"command": "id -u"})
            asked = await one.session.call_tool(*call, allow_input_required=True)
            yes = ElicitResult(action="accept", content={"decision": "allow once"})
            said = {"input_responses": dict.fromkeys(asked.input_requests, yes), "request_state": asked.request_state}
            with pytest.raises(MCPError, match="a different one"):
                await other.session.call_tool(*call, **said, allow_input_required=True)
            done = await one.session.call_tool(*call, **said, allow_input_required=True)
            assert done.structured_content["place"] == "host"
