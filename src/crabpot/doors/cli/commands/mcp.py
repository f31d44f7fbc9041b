"""`mcp`: the door for an agent that speaks the Model Context Protocol."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.decide import sessions
from crabpot.doors.cli.commands.exec import finished, gateway
from crabpot.doors.cli.frame import OK, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import Settings, WorkspaceAccess

# The SDK takes a second to import: only pay for it when serving a client.
# ruff: noqa: PLC0415


def mcp(frame: Frame, options: Namespace) -> int:
    """Serve one client on standard input and output, or print the configuration by which a client starts us."""
    sessions.parse(options.session)
    if options.workspace is None and (options.review or options.direct):
        raise UsageError("--review and --direct say how to work on --workspace DIR")
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
    if options.print_config == "codex-environment":
        return ["exec", "--session", options.session, *words]
    given = {"--sender": options.sender, "--workspace": options.workspace}
    valued = [word for name, value in given.items() if value is not None for word in (name, value)]
    flags = [f"--{name}" for name in ("elicit", "structured", "review", "direct") if getattr(options, name)]
    return ["mcp", "--session", options.session, *valued, *flags, *words]


async def _serve(app: App, options: Namespace) -> int:
    from crabpot.doors.cli.terminal.console import Console
    from crabpot.doors.cli.terminal.prompt import Notice
    from crabpot.doors.mcp.server import Caller
    from crabpot.doors.mcp.stdio import serve

    notice = Notice(app.around.state)
    caller = Caller(
        session=options.session,
        sender=options.sender,
        name="stdio",
        elicits=options.elicit,
        structured=options.structured,
    )
    if options.workspace is None:
        async with gateway(app, notice) as opened:
            await serve(opened, caller, Console().read())
        return OK
    folder, settings = _over(app, options)
    own = app.gateway(settings=settings)
    own.desk.ends_with = "this client"
    own.desk.attach(notice)
    try:
        await serve(own, caller, Console().read(), folder=folder)
    finally:
        await own.close()
    return OK


def _over(app: App, options: Namespace) -> tuple[str, Settings]:
    """Return a folder, and the settings by which the session works on it at its own path."""
    from crabpot.presets.plan import folder_problem

    folder = os.path.realpath(options.workspace)
    if not os.path.isdir(folder):
        raise UsageError(f"--workspace {options.workspace}: there is no such folder")
    if wrong := folder_problem(folder, app.around):
        raise UsageError(wrong)
    settings = app.settings()
    agent = settings.agent(sessions.parse(options.session, default_agent=settings.default_agent).agent)
    way: WorkspaceAccess = "rw" if options.direct else "review"
    sandbox = replace(agent.sandbox, mode="all", scope="session", workspace=way, workspace_at="same")
    changed = replace(agent, workspace=folder, sandbox=sandbox)
    return folder, replace(settings, entries={**settings.entries, agent.id: changed})
