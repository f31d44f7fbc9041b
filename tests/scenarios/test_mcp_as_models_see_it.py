"""What a model receives of a call: clean text, pictures as pictures, both ends of long output, and what it waits for."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.waiting import wait_until

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ELEVATED = """{agents: {defaults: {sandbox: {workspace: "rw"}}},
               tools: {elevated: {enabled: true, patterns: ["id *"], approvalTimeout: 60}}}"""


def talk(program, work, *arguments, cwd=None):
    """Have a session with the SDK's client, started in a folder as an agent starts its servers."""
    first, *rest = program.argv
    server = StdioServerParameters(command=first, args=[*rest, "mcp", *arguments], env=program.environ, cwd=cwd)

    async def whole():
        async with Client(stdio_client(server), mode="legacy") as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(whole(), 200))


def test_text_pictures_and_long_output_arrive_as_what_they_are(crabpot):
    async def work(client):
        tools = (await client.list_tools()).tools
        encoded = base64.b64encode(PICTURE).decode()
        await client.call_tool("write", {"path": "a.png", "content": encoded, "encoding": "base64"})
        ran = await client.call_tool("exec", {"command": "echo one; exit 3"})
        picture = await client.call_tool("read", {"path": "a.png"})
        long = await client.call_tool("exec", {"command": "seq 100000"})
        where = re.search(r"all of it is in (/tmp/stdout-[0-9a-f]+\.txt)", long.content[0].text)
        kept = await client.call_tool("exec", {"command": f"wc -l < {where[1]}; tail -1 {where[1]}"})
        return tools, ran, picture, long, kept

    tools, ran, picture, long, kept = talk(crabpot, work)
    assert all(tool.meta == {"anthropic/alwaysLoad": True} and tool.output_schema is None for tool in tools)
    assert (ran.structured_content, ran.is_error) == (None, True)
    assert [one.text for one in ran.content] == ["one\n[exit code 3]"]
    shown = [one for one in picture.content if one.type == "image"]
    assert [(one.mime_type, base64.b64decode(one.data)) for one in shown] == [("image/png", PICTURE)]
    text = long.content[0].text
    assert len(text) < 30_000
    assert text.startswith("1\n2\n")
    assert "\n100000" in text
    assert kept.content[0].text == "100000\n100000"


@pytest.mark.parametrize("way", ["--review", "--direct"])
def test_it_works_on_the_folder_that_its_client_started_it_in(crabpot, open_folder, way):
    folder = open_folder / "project"
    folder.mkdir()
    (folder / "there").write_text("before\n")
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        os.chown(folder / "there", 65534, 65534)

    async def work(client):
        return await client.call_tool("exec", {"command": "pwd; cat there; echo after > there"})

    done = talk(crabpot, work, "--workspace", ".", way, cwd=str(folder))
    assert done.content[0].text == f"{folder}\nbefore"
    assert (folder / "there").read_text() == ("before\n" if way == "--review" else "after\n")
    if way == "--review":
        changes = crabpot("changes", "list", "--json", cwd=folder).json
        assert [one["path"] for one in changes["files"]] == ["there"]


def test_a_home_is_no_folder_to_work_on(crabpot):
    ended = crabpot("mcp", "--workspace", ".")
    assert (ended.code, "your home" in ended.said()) == (2, True)


def test_an_approval_that_is_waited_for_is_announced(crabpot):
    crabpot.configure(ELEVATED)
    crabpot.workspace.mkdir(mode=0o755)
    if os.geteuid() == 0:
        for folder in (crabpot.home, *crabpot.home.parents[:2]):
            folder.chmod(0o755)
        os.chown(crabpot.workspace, 65534, 65534)
    heard = []

    async def progress(_progress, _total, message):
        heard.append(message)

    async def work(client):
        return await client.call_tool("exec", {"command": "id -u"}, progress_callback=progress)

    def answer():
        wait_until(lambda: heard, 120)
        return crabpot("approvals", "deny", heard[0].split()[-1]).code

    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        done = talk(crabpot, work)
        assert answering.result(timeout=60) == 0
    assert heard[0].startswith("waiting for approval of: id -u")
    assert "approval_denied" in done.content[0].text
