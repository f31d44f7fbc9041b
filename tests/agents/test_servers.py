"""Real MCP servers from npm and PyPI in sandboxes of their own: `make test-agents` installs them first."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.servers.approving import candidate
from tests.support.backends import need
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = os.environ.get("CRABPOT_AGENTS", "")
SESSION = "agent:main:main"


def npm(name: str, *more: str) -> list[str]:
    return [f"{AGENTS}/node_modules/.bin/{name}", *more]


def pypi(name: str, *more: str) -> list[str]:
    return [f"{AGENTS}/python/bin/{name}", *more]


@pytest.fixture
def project(open_folder: Path) -> Path:
    need("bubblewrap")
    assert AGENTS, "set CRABPOT_AGENTS to the folder that the servers were installed in; see make test-agents"
    folder = open_folder / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hi there")
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "1000:1000", str(folder)], check=True)
    return folder


async def called(project: Path, server: dict[str, Any], *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    config = {"agents": {"defaults": {"workspace": str(project)}}, "mcp": {"servers": {"it": server}}}
    gateway = open_gateway(json.dumps(config), str(project.parent / "state"))
    try:
        (await candidate(gateway.servers, "it")).keep(by="test")
        return [await gateway.call(SESSION, f"it__{tool}", args) for tool, args in calls]
    finally:
        await gateway.close()


async def test_a_filesystem_server_sees_its_folder_and_nothing_else(project: Path) -> None:
    # It would serve the whole machine if it could.
    server = {"command": npm("mcp-server-filesystem", "/"), "sandbox": {"workspace": "rw"}}
    read, written, elsewhere = await called(
        project,
        server,
        ("read_text_file", {"path": "/workspace/a.txt"}),
        ("write_file", {"path": "/workspace/b.txt", "content": "made"}),
        ("list_directory", {"path": os.path.expanduser("~")}),
    )
    assert (read.stdout, written.success, elsewhere.success) == ("hi there", True, False), elsewhere
    assert (project / "b.txt").read_text() == "made"


async def test_the_server_with_everything_answers_with_text_and_a_picture(project: Path) -> None:
    server = {"command": npm("mcp-server-everything")}
    echoed, pictured = await called(project, server, ("echo", {"message": "x"}), ("get-tiny-image", {}))
    assert echoed.stdout == "Echo: x"
    assert [block["type"] for block in pictured.data["content"]] == ["image"]


async def test_the_sqlite_server_keeps_its_tables_in_its_own_folder(project: Path) -> None:
    server = {"command": [f"{AGENTS}/sqlite/bin/mcp-server-sqlite", "--db-path", "/workspace/own.db"]}
    made, written, read = await called(
        project,
        server,
        ("create_table", {"query": "CREATE TABLE crabs (name TEXT)"}),
        ("write_query", {"query": "INSERT INTO crabs VALUES ('Ada')"}),
        ("read_query", {"query": "SELECT name FROM crabs"}),
    )
    assert (made.success, written.success, "Ada" in read.stdout) == (True, True, True), read
    assert not list(project.rglob("*.db")), "the agent's own folder was not given to it"


async def test_the_memory_server_remembers_in_its_own_folder(project: Path) -> None:
    server = {"command": npm("mcp-server-memory"), "env": {"MEMORY_FILE_PATH": "/workspace/memory.json"}}
    crab = {"name": "Ada", "entityType": "crab", "observations": ["sideways"]}
    made, read = await called(project, server, ("create_entities", {"entities": [crab]}), ("read_graph", {}))
    assert (made.success, "sideways" in read.stdout) == (True, True), (made, read)
    assert not list(project.rglob("memory.json"))


async def test_the_time_server_answers_offline(project: Path) -> None:
    server = {"command": pypi("mcp-server-time", "--local-timezone", "UTC")}
    (told,) = await called(project, server, ("get_current_time", {"timezone": "UTC"}))
    assert "datetime" in told.stdout, told


async def test_the_git_server_works_in_the_agents_repository(project: Path) -> None:
    server = {"command": pypi("mcp-server-git"), "sandbox": {"workspace": "rw"}}
    (status,) = await called(project, server, ("git_status", {"repo_path": "/workspace"}))
    assert "a.txt" in status.stdout, status


async def test_the_fetch_server_reaches_nothing_that_is_not_listed(project: Path) -> None:
    listed = {"network": {"allow": ["listed.example:443"]}}
    server = {"command": pypi("mcp-server-fetch", "--ignore-robots-txt"), "sandbox": listed}
    (fetched,) = await called(project, server, ("fetch", {"url": "https://evil.example/x"}))
    assert (fetched.success, "evil.example:443 was refused" in fetched.stderr) == (False, True), fetched
