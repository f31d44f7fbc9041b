"""Claude Code and Codex, with a scripted model, calling the tools of real MCP servers through one `crabpot mcp`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.agents.test_mcp import AGENTS
from tests.support.backends import need
from tests.support.model_server import DONE, Script, Use, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

INSTALLED = os.environ.get("CRABPOT_AGENTS", "")
# Codex shows its model the names of tools with _ where they have -, and calls them by their own.
SUMS = {"claude": "ev__get-sum", "codex": "ev__get_sum"}


def calls(agent: str) -> tuple[Use, ...]:
    return (
        Use("fs__read_text_file", {"path": "/workspace/a.txt"}),
        Use("fs__list_directory", {"path": os.path.expanduser("~")}),
        Use(SUMS[agent], {"a": 19, "b": 23}),
        Use("ev__echo", {"message": "hello"}),
    )


@pytest.fixture(autouse=True)
def ready() -> None:
    need("bubblewrap")


@pytest.mark.parametrize("name", AGENTS)
def test_real_servers_behind_one_crabpot(name: str, crabpot: Program, folder: Path) -> None:
    (folder / "a.txt").write_text("what the server read")
    servers = {
        # It would serve the whole machine if it could.
        "fs": {
            "command": [f"{INSTALLED}/node_modules/.bin/mcp-server-filesystem", "/"],
            "sandbox": {"workspace": "rw"},
        },
        "ev": {"command": [f"{INSTALLED}/node_modules/.bin/mcp-server-everything"]},
    }
    agents = {"defaults": {"workspace": str(folder)}}
    config = {"agents": agents, "tools": {"deny": ["fs__write_file"]}, "mcp": {"servers": servers}}
    crabpot.configure(json.dumps(config))
    for server in servers:
        assert crabpot("servers", "approve", server, "--yes").code == 0
    script = Script(*calls(name))
    with scripted(script, None):
        said = AGENTS[name](crabpot, folder, script)
    assert DONE in said, said
    assert len(script.results) == len(calls(name)), script.results
    read, elsewhere, summed, echoed = script.results
    offered = json.dumps(script.tools)
    assert "fs__read_text_file" in offered
    assert "fs__write_file" not in offered, "a denied tool is not listed"
    assert "what the server read" in read
    assert "ENOENT" in elsewhere, elsewhere
    assert "The sum of 19 and 23 is 42" in summed
    assert "Echo: hello" in echoed
    log = crabpot("audit", "tail").out
    assert "fs__read_text_file" in log
