"""The server with everything, behind `crabpot mcp`, to a client of the official SDK: what is passed, and what is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, TextContent

from tests.support.backends import need
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AGENTS = os.environ.get("CRABPOT_AGENTS", "")
PASSED = {"resources": True, "prompts": True, "sampling": True}


class Crabpot:
    """The program over one configuration and state folder."""

    def __init__(self, folder: Path, server: dict[str, Any]) -> None:
        command = [f"{AGENTS}/node_modules/.bin/mcp-server-everything"]
        self._config = folder / "crabpot.json5"
        config = {"gateway": {"linger": 0}, "mcp": {"servers": {"ev": {"command": command, **server}}}}
        self._config.write_text(json.dumps(config))
        self.words = ["-m", "crabpot", "--config", str(self._config), "--state", str(folder / "state")]

    async def __call__(self, *words: str) -> tuple[int, str]:
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(sys.executable, *self.words, *words, stdout=pipe, stderr=pipe)
        out, err = await started.communicate()
        return started.returncode or 0, (out or err).decode()

    async def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((await self("approvals", "list", "--json"))[1])
        return found


async def model(_context: Any, params: Any) -> CreateMessageResult:
    asked = params.messages[0].content
    said = f"the model was asked: {asked.text}, with the context of {params.include_context}"
    return CreateMessageResult(role="assistant", content=TextContent(text=said), model="scripted")


@asynccontextmanager
async def client(crabpot: Crabpot, **more: Any) -> AsyncIterator[Any]:
    assert (await crabpot("servers", "approve", "ev", "--yes"))[0] == 0
    started = StdioServerParameters(command=sys.executable, args=[*crabpot.words, "mcp"], env=dict(os.environ))
    async with stdio_client(started) as (reading, writing), ClientSession(reading, writing, **more) as session:
        await session.initialize()
        yield session


@pytest.fixture(autouse=True)
def ready() -> None:
    need("bubblewrap")
    assert AGENTS, "set CRABPOT_AGENTS to the folder that the servers were installed in; see make test-agents"


def text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


async def test_resources_and_prompts_are_passed_under_names_that_say_whose_they_are(open_folder: Path) -> None:
    async with client(Crabpot(open_folder, PASSED)) as session:
        listed = (await session.list_resources()).resources
        assert listed[0].uri == "crabpot-mcp://ev/demo://resource/static/document/architecture.md"
        assert {one.description for one in listed} == {None}, "nobody approved a word about them"
        templates = (await session.list_resource_templates()).resource_templates
        assert "crabpot-mcp://ev/demo://resource/dynamic/text/{resourceId}" in [one.uri_template for one in templates]
        (content,) = (await session.read_resource("crabpot-mcp://ev/demo://resource/dynamic/text/7")).contents
        assert (content.uri, content.text[:10]) == ("crabpot-mcp://ev/demo://resource/dynamic/text/7", "Resource 7")
        prompts = {one.name: one for one in (await session.list_prompts()).prompts}
        assert prompts["ev__args-prompt"].arguments[0].name == "city"
        got = await session.get_prompt("ev__args-prompt", {"city": "Bergen"})
        assert "Bergen" in got.messages[0].content.text
        for wrong in ("demo://resource/dynamic/text/7", "crabpot-mcp://nobody/x", "crabpot-mcp://ev/demo://nothing"):
            with pytest.raises(MCPError):
                await session.read_resource(wrong)
        with pytest.raises(MCPError, match="name is one of: ev__simple-prompt"):
            await session.get_prompt("ev__nothing")


async def test_a_server_without_the_words_for_it_passes_tools_and_nothing_else(open_folder: Path) -> None:
    async with client(Crabpot(open_folder, {}), sampling_callback=model) as session:
        assert session.server_capabilities.resources is None
        assert session.server_capabilities.prompts is None
        listed = [one.name for one in (await session.list_tools()).tools]
        assert "ev__echo" in listed
        # A server that was not told of a model does not even offer the tool that wants one.
        assert "ev__trigger-sampling-request" not in listed
        refused = await session.call_tool("ev__resources/read", {"uri": "demo://resource/dynamic/text/1"})
        assert "mcp.servers.ev.resources is false" in text(refused)


async def test_sampling_reaches_the_model_of_the_caller_and_no_other_context(open_folder: Path) -> None:
    async with client(Crabpot(open_folder, PASSED), sampling_callback=model) as session:
        sampled = await session.call_tool("ev__trigger-sampling-request", {"prompt": "what now", "maxTokens": 10})
        assert "the model was asked: Resource trigger-sampling-request context: what now" in text(sampled)
        assert "with the context of None" in text(sampled)


async def test_a_caller_without_a_model_is_not_asked_for_one(open_folder: Path) -> None:
    async with client(Crabpot(open_folder, PASSED)) as session:
        sampled = await session.call_tool("ev__trigger-sampling-request", {"prompt": "x"})
        assert "sampling/createMessage is refused: the caller offers no model" in text(sampled)


async def test_a_question_waits_for_an_operator_who_fills_in_the_form(open_folder: Path) -> None:
    crabpot = Crabpot(open_folder, PASSED)
    async with client(crabpot) as session:
        asking = asyncio.create_task(session.call_tool("ev__trigger-elicitation-request", {}))
        (request,) = await until(crabpot.waiting)
        assert (request["kind"], request["server"], request["session"]) == ("question", "ev", "agent:main:main")
        assert "name: string" in (await crabpot("approvals", "list"))[1]
        empty = await crabpot("approvals", "allow", request["id"])
        assert (empty[0], "the form needs: name" in empty[1]) == (2, True)
        wrong = await crabpot("approvals", "allow", request["id"], "--answer", '{"name": 3}')
        assert (wrong[0], "name must be of the type string" in wrong[1]) == (2, True)
        assert not asking.done()
        assert (await crabpot("approvals", "allow", request["id"], "--answer", '{"name": "Ada"}'))[0] == 0
        assert '"name": "Ada"' in text(await asking)


async def test_a_question_that_is_denied_is_declined_and_an_address_to_visit_is_refused(open_folder: Path) -> None:
    crabpot = Crabpot(open_folder, PASSED)
    async with client(crabpot) as session:
        asking = asyncio.create_task(session.call_tool("ev__trigger-elicitation-request", {}))
        (request,) = await until(crabpot.waiting)
        assert (await crabpot("approvals", "deny", request["id"]))[0] == 0
        assert '"action": "decline"' in text(await asking)
        address = {"url": "https://evil.example/login", "message": "log in"}
        visit = await session.call_tool("ev__trigger-url-elicitation", address)
        assert "only forms are passed on" in text(visit), visit


async def test_progress_is_passed_and_a_cancelled_call_ends_at_the_server_too(open_folder: Path) -> None:
    async with client(Crabpot(open_folder, PASSED)) as session:
        heard: list[tuple[float, float | None]] = []

        async def told(progress: float, total: float | None, _message: str | None) -> None:
            heard.append((progress, total))

        done = await session.call_tool(
            "ev__trigger-long-running-operation", {"duration": 1, "steps": 2}, progress_callback=told
        )
        assert "completed" in text(done)
        assert heard[0] == (1, 2), heard
        long = asyncio.create_task(
            session.call_tool(
                "ev__trigger-long-running-operation", {"duration": 600, "steps": 1200}, progress_callback=told
            )
        )
        heard.clear()
        await until(lambda: bool(heard))
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        assert text(await session.call_tool("ev__echo", {"message": "after"})) == "Echo: after"
