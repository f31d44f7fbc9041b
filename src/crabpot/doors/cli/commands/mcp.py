"""`mcp`: the door for an agent that speaks the Model Context Protocol."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.decide import sessions
from crabpot.doors.cli.commands.exec import finished, gateway
from crabpot.doors.cli.frame import OK

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame

# The SDK takes a second to import: only pay for it when serving a client.
# ruff: noqa: PLC0415


def mcp(frame: Frame, options: Namespace) -> int:
    """Serve one client on standard input and output, or print the configuration by which a client starts us."""
    sessions.parse(options.session)
    if options.print_config is not None:
        from crabpot.doors.mcp import configs

        print(configs.written(options.print_config, configs.command(_arguments(frame, options))))
        return OK
    return finished(_serve(frame.app(), options))


def _arguments(frame: Frame, options: Namespace) -> list[str]:
    """Return the arguments that repeat this invocation from anywhere."""
    # The client starts us in another folder, with its own environment.
    config = frame.config or os.environ.get("CRABPOT_CONFIG")
    files = {"--config": config, "--state": frame.state}
    words = [word for name, path in files.items() if path for word in (name, os.path.abspath(path))]
    sender = [] if options.sender is None else ["--sender", options.sender]
    elicit = ["--elicit"] if options.elicit else []
    return ["mcp", "--session", options.session, *sender, *elicit, *words]


async def _serve(app: App, options: Namespace) -> int:
    from crabpot.doors.cli.terminal.console import Console
    from crabpot.doors.cli.terminal.prompt import Notice
    from crabpot.doors.mcp.server import Caller
    from crabpot.doors.mcp.stdio import serve

    caller = Caller(session=options.session, sender=options.sender, name="stdio", elicits=options.elicit)
    async with gateway(app, Notice(app.around.state)) as opened:
        await serve(opened, caller, Console().read())
    return OK
