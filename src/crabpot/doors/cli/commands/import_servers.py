"""`import`: take over what other programs have written about their MCP servers."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from crabpot.approvals.display import line
from crabpot.config.load import read_text
from crabpot.config.other_servers import read
from crabpot.doors.cli.commands.config import change
from crabpot.doors.cli.frame import FAILED, OK, note
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame


def import_mcp(frame: Frame, options: Namespace) -> int:
    """Print the servers in our own spelling; with --write, add those that are not in the configuration yet."""
    found = read(read_text(options.file), toml=options.file.endswith(".toml"))
    for text in found.notes:
        note(line(text))
    if not found.servers:
        note("nothing is left to import")
        return FAILED
    if not options.write:
        print(json.dumps({"mcp": {"servers": found.servers}}, indent=2))
        note("nothing is written; --write adds it to the configuration")
        return OK
    app = frame.app()
    # As by `config set`, a file that --config names may be new.
    known = app.settings().mcp.servers if app.config is None or os.path.lexists(app.config) else {}
    new = {name: server for name, server in found.servers.items() if name not in known}
    for name in found.servers.keys() - new.keys():
        note(f"{name}: left as it is in the configuration")
    if new:
        file, _ = change(app, [(f'mcp.servers."{name}"', json.dumps(server)) for name, server in new.items()])
        note(f"{file}: {counted(len(new), 'server')} added; next: crabpot servers approve NAME")
    return OK
