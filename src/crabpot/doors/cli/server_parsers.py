"""The parsers of what concerns MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.doors.cli.parsing import add, group

if TYPE_CHECKING:
    from crabpot.doors.cli.parsing import Adder


def describe(commands: Adder) -> None:
    """Add the parsers."""
    kinds = group(commands, "import", "turn another program's configuration into one of Crabpot's", "FORMAT")
    text = "the MCP servers of Claude, Cursor, VS Code, OpenClaw (JSON) or Codex (TOML); keys are never copied"
    one = add(kinds, "mcp", "import_servers:import_mcp", text)
    one.add_argument("file", metavar="FILE", help="such as ~/.claude.json, .cursor/mcp.json or ~/.codex/config.toml")
    one.add_argument("--write", action="store_true", help="add them to the configuration, instead of printing them")
    actions = group(commands, "servers", "list, approve or restart the MCP servers of the configuration")
    one = add(actions, "list", "servers:list_servers", "list the servers, and what waits for your approval")
    one.add_argument("--json", action="store_true", help="print JSON")
    text = "start a server, show what it says of its tools and what changed, and pin it once you agree"
    one = add(actions, "approve", "servers:approve", text)
    one.add_argument("name", metavar="NAME", help="its name in mcp.servers")
    one.add_argument("--yes", action="store_true", help="agree without being asked; everything is shown all the same")
    text = "end a server in the gateway that runs, and forget its failures; its next call starts it"
    one = add(actions, "restart", "servers:restart", text)
    one.add_argument("name", metavar="NAME", help="its name in mcp.servers")
