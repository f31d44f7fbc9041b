"""MCP over a gateway, spoken by the SDK's own client: what is offered, called, streamed, cancelled and refused."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.client.client import Client

from crabpot.audit.reading import AuditReader
from crabpot.doors.inflight import Calls
from crabpot.doors.mcp.server import Caller, Tools
from tests.support.waiting import until

S = "agent:main:main"


@pytest.fixture(params=["legacy", "auto"])
def talking(request, bench):
    """Return a client of either era of the protocol, connected to a gateway."""

    @asynccontextmanager
    async def talk(text=None, *, sender=None, register=None):
        async with bench(*([text] if text else [])) as made:
            for name, tool in (register or {}).items():
                made.gateway.register(name, tool)
            calls = Calls()
            caller = Caller(session=S, sender=sender, structured=True)
            tools = Tools(gateway=made.gateway, calls=calls, caller=lambda _: caller)
            async with Client(InMemoryTransport(tools.server()), mode=request.param) as client:
                vars(client)["made"] = made
                yield client
            await calls.close(grace_s=0)

    return talk


async def test_only_what_the_policy_leaves_is_offered_with_schemas_and_hints(talking):
    async with talking('{tools: {profile: "coding", deny: ["group:runtime", "write"]}}') as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(offered) == ["read", "edit", "grep", "glob", "ls"]
        assert offered["read"].input_schema["required"] == ["path"]
        assert offered["read"].annotations.read_only_hint is True
        assert offered["edit"].annotations.destructive_hint is True
        assert offered["edit"].title == "Edit a file"


async def test_a_denied_tool_is_refused_by_the_gateway_which_names_the_rule(talking):
    async with talking('{tools: {deny: ["exec"]}}') as client:
        result = await client.call_tool("exec", {"command": "touch x"})
        assert result.is_error
        assert result.structured_content["error"]["code"] == "denied"
        assert "tools.deny[0]" in result.content[0].text


async def test_reading_writing_and_running_give_the_result_as_structure_and_as_text(talking):
    async with talking() as client:
        assert not (await client.call_tool("write", {"path": "a.txt", "content": "one\n"})).is_error
        assert (await client.call_tool("read", {"path": "a.txt"})).content[0].text == "one\n"
        ran = await client.call_tool("exec", {"command": "cat a.txt; echo oh >&2; exit 3"})
        assert ran.is_error
        assert ran.content[0].text == "one\n[stderr]\noh\n[exit code 3]"
        shape = "id success stdout stderr exit_code error truncated data place duration_ms".split()
        assert list(ran.structured_content) == shape
        assert (ran.structured_content["stdout"], ran.structured_content["exit_code"]) == ("one\n", 3)


async def test_bytes_come_as_a_blob_and_pictures_as_pictures(talking):
    content = base64.b64encode(bytes(range(256))).decode()
    async with talking() as client:
        for path in ("a.bin", "a.png"):
            await client.call_tool("write", {"path": path, "content": content, "encoding": "base64"})
        blob = (await client.call_tool("read", {"path": "a.bin", "encoding": "base64"})).content[-1]
        assert (blob.type, blob.resource.blob, str(blob.resource.uri)) == (
            "resource",
            content,
            "crabpot://agent%3Amain%3Amain/a.bin",
        )
        picture = await client.call_tool("read", {"path": "a.png", "encoding": "base64"})
        assert (picture.content[-1].data, picture.content[-1].mime_type) == (content, "image/png")
        assert "content" not in picture.structured_content["data"]


async def test_output_is_told_while_it_comes_and_is_whole_in_the_result(talking):
    told = []

    async def progress(amount, _total, message):
        told.append((amount, message))

    async with talking() as client:
        command = "echo 1; while [ ! -e go ]; do sleep 0.01; done; echo 2"
        running = asyncio.create_task(client.call_tool("exec", {"command": command}, progress_callback=progress))
        while not told:
            await asyncio.sleep(0.002)
        assert not running.done()
        await client.call_tool("write", {"path": "go", "content": ""})
        assert (await running).structured_content["stdout"] == "1\n2\n"
        assert told == [(2.0, "1\n"), (4.0, "2\n")]


async def test_a_cancelled_call_is_ended_with_its_processes_and_recorded(talking):
    async with talking() as client:
        running = asyncio.create_task(client.call_tool("exec", {"command": "echo $$ > pid; sleep 1000"}))
        while (await client.call_tool("read", {"path": "pid"})).is_error:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        await until(lambda: ("exec", "cancelled") in recorded(client.made))
        assert (await client.call_tool("exec", {"command": "kill -0 $(cat pid)"})).is_error


def recorded(made):
    return [(one["tool"], one["error"]) for one in AuditReader(made.state).last(100) if one["kind"] == "call"]


async def test_neither_session_nor_sender_can_be_given_as_an_argument(talking):
    async with talking(sender="telegram:7") as client:
        for name in ("session", "sender"):
            result = await client.call_tool("ls", {name: "agent:other:main"})
            assert result.structured_content["error"]["code"] == "invalid_arguments"
        await until(lambda: len(AuditReader(client.made.state).last(9)) >= 2)
        calls = [one for one in AuditReader(client.made.state).last(9) if one["kind"] == "call"]
        assert {(one["session"], one["sender"]) for one in calls} == {(S, "telegram:7")}


async def test_a_host_tool_of_the_embedding_program_is_offered_and_called(talking):
    async def weather(city: str) -> str:
        """Say how the weather will be."""
        return f"rain in {city}"

    async with talking('{tools: {extra: ["weather"]}}', register={"weather": weather}) as client:
        assert (await client.list_tools()).tools[-1].description == "Say how the weather will be."
        result = await client.call_tool("weather", {"city": "Lisbon"})
        assert result.structured_content["data"] == {"value": "rain in Lisbon"}
