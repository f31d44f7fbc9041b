"""Packages of the real registries: sealed at approval, run without a network to them, and not run once changed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.audit.reading import AuditReader
from crabpot.errors import CrabpotError
from crabpot.servers.approving import candidate
from tests.support.backends import need
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "agent:main:main"
SERVERS = {
    "npx": (["npx", "-y", "@modelcontextprotocol/server-filesystem", "/workspace"], "list_allowed_directories", {}),
    "uvx": (["uvx", "mcp-server-time", "--local-timezone", "UTC"], "get_current_time", {"timezone": "UTC"}),
}


@pytest.fixture(autouse=True)
def ready() -> None:
    need("bubblewrap")


@pytest.mark.parametrize("tool", SERVERS)
async def test_a_package_is_sealed_run_offline_and_not_run_once_it_changed(open_folder: Path, tool: str) -> None:
    command, called, args = SERVERS[tool]
    state = open_folder / "state"
    gateway = open_gateway(json.dumps({"mcp": {"servers": {"it": {"command": command}}}}), str(state))
    try:
        waiting = await gateway.call(SESSION, f"it__{called}", args)
        assert waiting.error.code == "denied"
        found = await candidate(gateway.servers, "it")
        found.keep(by="test")
        lock: dict[str, Any] = dict(found.pin.lock or {})
        assert all(digest.startswith(("sha512-", "sha256-")) for _, digest in lock["parts"].values())
        await gateway.audit.durable()
        reached = {one["destination"] for one in AuditReader(str(state)).last(2000) if one["kind"] == "connection"}
        assert reached, "the registry was reached while it was installed"

        answer = await gateway.call(SESSION, f"it__{called}", args)
        assert answer.success, answer
        await gateway.audit.durable()
        again = {one["destination"] for one in AuditReader(str(state)).last(2000) if one["kind"] == "connection"}
        assert again == reached
        running = gateway.servers._running["server:it:agent:main:main"]
        assert running.scope.agent.sandbox.network.name == "none"

        file = state / "packages" / lock["tree"] / lock["program"]
        os.chmod(file, 0o755)
        file.write_text(f"{file.read_text()}\n# changed\n")
        await gateway.servers.restart("it")
        refused = await gateway.call(SESSION, f"it__{called}", args)
        assert "are not those that were approved" in refused.error.message
    finally:
        await gateway.close()


async def test_a_package_that_does_not_exist_is_named(open_folder: Path) -> None:
    config = {"mcp": {"servers": {"it": {"command": ["npx", "@modelcontextprotocol/there-is-no-such-server"]}}}}
    gateway = open_gateway(json.dumps(config), str(open_folder / "state"))
    try:
        with pytest.raises(CrabpotError, match=r"the package of the server it was not installed: .*404"):
            await candidate(gateway.servers, "it")
    finally:
        await gateway.close()
