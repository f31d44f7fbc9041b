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
        "far": {"url": "https://a.example/mcp", "secrets": ["FAR_KEY"]},
    }
    told = "\n".join(found.notes)
    assert "real" not in told
    assert [
        name
        for name in ("boxed: left out", "off: left out", "odd: ", "empty: left out", "crabpot secrets set FAR_KEY")
        if name not in told
    ] == []


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"mcpServers": []}', "[" * 10_000])
def test_what_lists_no_server_is_an_error(text):
    with pytest.raises(CrabpotError):
        read(text, toml=False)


CLAUDE = """{"numStartups": 12, "mcpServers": {
  "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp", "headers": {"Authorization": "Bearer real-value"}},
  "linear": {"type": "sse", "url": "https://mcp.linear.app/sse"}},
  "projects": {"/home/me/app": {"mcpServers": {"db": {"command": "uvx", "args": ["mcp-server-sqlite"]}}}}}"""
CURSOR = """{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}/src"]},
  "web": {"url": "https://api.example.com/mcp", "headers": {"X-Api-Key": "${env:WEB_KEY}", "X-Region": "eu"}}}}"""
VS_CODE = """{// with comments
  "inputs": [{"type": "promptString", "id": "the-token", "password": true}],
  "servers": {
    "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"Authorization": "Bearer ${input:the-token}"}},
    "near": {"command": "uvx", "args": ["mcp-server-git", "/srv/repo"], "envFile": "${workspaceFolder}/.env"},
  }}"""
FIGMA = """
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
env_http_headers = { "X-Team" = "FIGMA_TEAM" }
[mcp_servers.docs]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
enabled_tools = ["search"]
disabled_tools = ["write"]
"""


def keyed(env, host, header):
    return {"env": env, "host": host, "header": header, "format": "{}"}


@pytest.mark.parametrize(
    ("text", "toml", "servers", "notes"),
    [
        (
            CLAUDE,
            False,
            {"sentry": {"url": "https://mcp.sentry.dev/mcp", "secrets": ["SENTRY_KEY"]}},
            ["linear: left out: sse", "the project /home/me/app has servers of its own, left out: db"],
        ),
        (
            CURSOR,
            False,
            {
                "files": {"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/workspace/src"]},
                "web": {
                    "url": "https://api.example.com/mcp",
                    "secrets": [keyed("WEB_KEY", "api.example.com:443", "X-Api-Key")],
                },
            },
            ['files: to show it the agent\'s folder at /workspace, write sandbox: {workspace: "rw"}', "X-Region"],
        ),
        (
            VS_CODE,
            False,
            {
                "far": {"url": "https://far.example/mcp", "secrets": ["THE_TOKEN"]},
                "near": {"command": ["uvx", "mcp-server-git", "/srv/repo"]},
            },
            ["near: its envFile is left out", "near: it sees none of /srv/repo"],
        ),
        (
            FIGMA,
            True,
            {
                "figma": {
                    "url": "https://mcp.figma.com/mcp",
                    "secrets": ["FIGMA_TOKEN", keyed("FIGMA_TEAM", "mcp.figma.com:443", "X-Team")],
                },
                "docs": {
                    "command": ["npx", "-y", "@upstash/context7-mcp"],
                    "tools": {"allow": ["search"], "deny": ["write"]},
                },
            },
            ["figma: keep the key with `crabpot secrets set FIGMA_TOKEN`"],
        ),
    ],
    ids=["claude", "cursor", "vs code", "codex"],
)
def test_what_each_program_writes_is_taken_over_or_named(text, toml, servers, notes):
    found = read(text, toml=toml)
    assert found.servers == servers
    told = "\n".join(found.notes)
    assert [one for one in (*notes, "crabpot secrets set") if one not in told] == []
    assert "real-value" not in told
    around = Surroundings(home="/home/x", state="/home/x/.local/state/crabpot")
    assert from_text(json.dumps({"mcp": {"servers": servers}}), None, around, {}).mcp.servers.keys() == servers.keys()
