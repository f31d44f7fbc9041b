"""`import mcp`: other programs' servers in our own spelling, without their keys."""

from __future__ import annotations

import json

import pytest

from crabpot.config.load import from_text
from crabpot.config.other_servers import read
from crabpot.errors import CrabpotError
from crabpot.spec.binds import Surroundings

FS = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]}
CODEX = """
model = "x"
[mcp_servers.files]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]
"""


@pytest.mark.parametrize(
    ("text", "toml"),
    [
        (json.dumps({"mcpServers": {"files": FS}}), False),
        ('{// VS Code\n"servers": {"files": ' + json.dumps({"type": "stdio", **FS}) + '}, "inputs": [],}', False),
        (json.dumps({"mcp": {"servers": {"files": FS}}}), False),
        (CODEX, True),
    ],
    ids=["claude and cursor", "vs code", "openclaw", "codex"],
)
def test_each_form_gives_the_same_server_and_it_loads(text, toml):
    found = read(text, toml=toml)
    assert found.servers == {"files": {"command": [FS["command"], *FS["args"]]}}
    around = Surroundings(home="/home/x", state="/home/x/.local/state/crabpot")
    loaded = from_text(json.dumps({"mcp": {"servers": found.servers}}), None, around, {})
    assert list(loaded.mcp.servers) == ["files"]


def test_no_key_is_copied_and_no_engine_started():
    said = {
        "Git Hub": {
            "command": "x",
            "env": {"GITHUB_TOKEN": "ghp_real", "API_KEY": "real", "LEVEL": "info", "U": "${input:u}"},
        },
        "boxed": {"command": "docker", "args": ["run", "-i", "x"]},
        "far": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer real"}},
        "off": {"command": "x", "disabled": True},
        "odd": 7,
        "empty": {},
    }
    found = read(json.dumps({"mcpServers": said}), toml=False)
    assert found.servers == {
        "git-hub": {"command": ["x"], "env": {"LEVEL": "info"}, "secrets": ["GITHUB_TOKEN"]},
        "far": {"url": "https://a.example/mcp"},
    }
    told = "\n".join(found.notes)
    assert "real" not in told
    assert [
        name
        for name in ("boxed: left out", "off: left out", "odd: ", "empty: left out", "far: its headers")
        if name not in told
    ] == []


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"mcpServers": []}', "[" * 10_000])
def test_what_lists_no_server_is_an_error(text):
    with pytest.raises(CrabpotError):
        read(text, toml=False)
