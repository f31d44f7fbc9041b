"""Ready-to-paste configuration for MCP clients: which command starts Crabpot for them."""

from __future__ import annotations

import json
import os
import sys
from shlex import join

import crabpot

# What Claude Code itself does to files and processes of the host.
_CLAUDE_TOOLS = ("Bash", "Read", "Write", "Edit", "NotebookEdit", "Glob", "Grep")
_CODEX = """\
# Codex: add this to ~/.codex/config.toml. Its own shell works on the host, and is turned off.
# Its apply_patch and view_image stay on the host: use codex-environment to have all of it inside.
[features]
shell_tool = false
unified_exec = false

"""
# Without `required` the first request may come before the server; without the mode, headless calls are refused; and
# Codex would wait ten seconds for a server, and a minute for a call that waits for a person.
_CODEX_SERVER = """\
required = true
startup_timeout_sec = 60
tool_timeout_sec = 3600
default_tools_approval_mode = "approve\""""
_ALL_DAY = "3600"
_CODEX_ENVIRONMENT = """\
# Codex, where this is experimental: save it as ~/.codex/environments.toml. Its exec-server runs inside, its key stays
# outside. The project must be inside at its own path (workspaceAt: "same"), and the codex program too
# (sandbox.programs). Start codex with --dangerously-bypass-approvals-and-sandbox: its own sandbox cannot nest.
default = "pot"
include_local = false

[[environments]]
id = "pot"
initialize_timeout_sec = 120
"""


def command(arguments: list[str]) -> list[str]:
    """Return the command that starts this program for a client, by absolute path: clients have their own PATH."""
    checkout = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(crabpot.__file__)), "../../crabpot"))
    installed = os.path.join(os.path.dirname(sys.executable), "crabpot")
    for program in (checkout, installed):
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return [program, *arguments]
    return [sys.executable, "-I", "-m", "crabpot", *arguments]


def written(client: str, argv: list[str]) -> str:
    """Return the text to paste into a client's configuration."""
    program, *arguments = argv
    entry = {"command": program, "args": arguments}
    if client == "claude-code":
        return _claude_code(argv, entry)
    if client == "codex":
        return f"{_CODEX}[mcp_servers.crabpot]\n{_toml(program, arguments)}\n{_CODEX_SERVER}"
    if client == "codex-environment":
        started = [*arguments, "--timeout", _ALL_DAY, "--", "codex exec-server --listen stdio"]
        return f"{_CODEX_ENVIRONMENT}program = {json.dumps(program)}\nargs = {_listed(started)}"
    if client == "openclaw":
        return (
            f"// OpenClaw: add this to ~/.openclaw/openclaw.json\n{_indented({'mcp': {'servers': {'crabpot': entry}}})}"
        )
    return _indented({"mcpServers": {"crabpot": entry}})


def _claude_code(argv: list[str], entry: object) -> str:
    permissions = {"permissions": {"allow": ["mcp__crabpot"], "deny": [*_CLAUDE_TOOLS]}}
    # The prompt comes first: these options take every word that follows.
    headless = [
        "claude",
        "-p",
        "PROMPT",
        "--allowedTools",
        "mcp__crabpot",
        "--disallowedTools",
        ",".join(_CLAUDE_TOOLS),
    ]
    return (
        "# Claude Code: run this, or put the JSON below into .mcp.json of a project that is yours alone\n"
        f"{join(['claude', 'mcp', 'add', '--scope', 'user', 'crabpot', '--', *argv])}\n\n"
        "# Its own tools work on the host. Headless they are turned off, and the server is waited for, by\n"
        f"MCP_CONNECTION_NONBLOCKING=0 MCP_CONNECT_TIMEOUT_MS=60000 {join(headless)}\n"
        "# and for every session by these permissions in ~/.claude/settings.json\n"
        f"{_indented(permissions)}\n\n"
        "# .mcp.json\n"
        f"{_indented({'mcpServers': {'crabpot': entry}})}"
    )


def _toml(program: str, arguments: list[str]) -> str:
    return f"command = {json.dumps(program)}\nargs = {_listed(arguments)}"


def _listed(words: list[str]) -> str:
    return f"[{', '.join(json.dumps(word) for word in words)}]"


def _indented(value: object) -> str:
    return json.dumps(value, indent=2)
