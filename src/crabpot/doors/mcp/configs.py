"""Ready-to-paste configuration for MCP clients: which command starts Crabpot for them."""

from __future__ import annotations

import json
import os
import sys
from shlex import join

import crabpot

CLIENTS = ("claude-code", "codex", "openclaw", "generic")


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
        return (
            "# Claude Code: run this, or put the JSON below into .mcp.json of a project that is yours alone\n"
            f"{join(['claude', 'mcp', 'add', '--scope', 'user', 'crabpot', '--', *argv])}\n\n"
            f"{_indented({'mcpServers': {'crabpot': entry}})}"
        )
    if client == "codex":
        listed = ", ".join(json.dumps(argument) for argument in arguments)
        return (
            "# Codex: add this to ~/.codex/config.toml\n"
            f"[mcp_servers.crabpot]\ncommand = {json.dumps(program)}\nargs = [{listed}]"
        )
    if client == "openclaw":
        return (
            f"// OpenClaw: add this to ~/.openclaw/openclaw.json\n{_indented({'mcp': {'servers': {'crabpot': entry}}})}"
        )
    return _indented({"mcpServers": {"crabpot": entry}})


def _indented(value: object) -> str:
    return json.dumps(value, indent=2)
