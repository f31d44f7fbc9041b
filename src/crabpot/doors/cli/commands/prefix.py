"""`prefix claude`: Claude Code stays outside, and every command that it runs is run inside."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

from crabpot.config import edit, load
from crabpot.decide import placement, sessions
from crabpot.doors.cli import remarks
from crabpot.doors.cli.commands.config import change
from crabpot.doors.cli.commands.exec import exit_code, finished, gateway, longest
from crabpot.doors.cli.frame import OK, UsageError, complain, note
from crabpot.doors.cli.show import visible
from crabpot.doors.cli.terminal.console import Console
from crabpot.doors.cli.terminal.prompt import Notice
from crabpot.doors.mcp.configs import command
from crabpot.doors.thin.claude import Handed, report
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.presets.plan import folder_problem
from crabpot.sandboxes.streams import Streams
from crabpot.state.files import write_whole
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import AgentSettings

_VARIABLE = "CLAUDE_CODE_SHELL_PREFIX"
_SLUG = re.compile(r"[^a-z0-9]+")
_WRAPPER = """\
#!/bin/sh
# Runs in the pot what Claude Code hands it. Made by: crabpot prefix claude
exec {command} -- "$1"
"""


def claude(frame: Frame, options: Namespace) -> int:
    """Write the program that Claude Code runs its commands by, and print how to tell it; or be that program."""
    if options.command:
        if len(options.command) > 1:
            raise UsageError("prefix claude takes one text after --, as Claude Code hands it over")
        return finished(_run(frame.app(), options))
    return _set_up(frame, options)


def _set_up(frame: Frame, options: Namespace) -> int:
    app = frame.app()
    session = options.session or "agent:main:main"
    if options.workspace is not None:
        folder = _folder(app, options.workspace)
        session = options.session or f"agent:{_agent_of(folder)}:main"
        _show_folder(app, session, folder)
        app = frame.app()
    agent = _agent(app, session)
    where = placement.decide(sessions.parse(session), agent).answer.where
    if where is not Place.SANDBOX:
        note(f"{session} is placed on the host: commands would run there, unconfined; see `crabpot explain`")
    path = _write(frame, app, session, agent)
    print(f"export {_VARIABLE}={shlex.quote(path)}")
    if _root(agent) is None:
        note("its folder is not inside at its own path: crabpot prefix claude --workspace . makes it so")
    note("Read, Write and Edit of Claude Code still work on the host; only its commands, hooks and servers run inside")
    return OK


def _folder(app: App, given: str) -> str:
    folder = os.path.realpath(given)
    if not os.path.isdir(folder):
        raise UsageError(f"--workspace {given}: there is no such folder")
    if wrong := folder_problem(folder, app.around):
        raise UsageError(wrong.replace("--in DIR", "--workspace DIR"))
    return folder


def _agent_of(folder: str) -> str:
    name = _SLUG.sub("-", os.path.basename(folder).lower()).strip("-")[:24] or "folder"
    return f"claude-{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def _show_folder(app: App, session: str, folder: str) -> None:
    """Set in the configuration that the session's agent works on a folder, at its own path."""
    agent = sessions.parse(session, default_agent=app.settings().default_agent).agent
    at = edit.entry_of(load.read_text(app.config) if app.config else "{}", agent)
    sandbox = f"{at}.sandbox"
    # The agent outside changes the same files: a layer would hide what each does from the other.
    values = {
        f"{at}.workspace": folder,
        f"{sandbox}.mode": "all",
        f"{sandbox}.workspace": "rw",
        f"{sandbox}.workspaceAt": "same",
        f"{sandbox}.env.TMPDIR": "/tmp",  # noqa: S108  the sandbox's own
    }
    file, changed = change(app, [(path, json.dumps(value)) for path, value in values.items()])
    if changed:
        note(f"{file}: the agent {agent} works on {folder}; see `crabpot explain --agent {agent}`")


def _agent(app: App, session: str) -> AgentSettings:
    settings = app.settings()
    return settings.agent(sessions.parse(session, default_agent=settings.default_agent).agent)


def _root(agent: AgentSettings) -> str | None:
    """Return the folder that is the same inside and outside."""
    same = agent.sandbox.workspace == "rw" and agent.sandbox.workspace_at == "same"
    return os.path.realpath(os.path.expanduser(agent.workspace)) if same and agent.workspace else None


def _write(frame: Frame, app: App, session: str, agent: AgentSettings) -> str:
    root = _root(agent)
    config = frame.config or os.environ.get("CRABPOT_CONFIG")
    given = {
        "--session": session,
        "--timeout": f"{longest(app, session):g}",
        "--workspace": root,
        "--config": config and os.path.abspath(config),
        "--state": app.around.state,
    }
    words = [word for name, value in given.items() if value for word in (name, value)]
    folder = os.path.join(app.around.state, "prefix")
    take(app.around.state)
    take(folder)
    path = os.path.join(folder, f"claude-{hashlib.sha256(session.encode()).hexdigest()[:8]}")
    if " " in path:
        raise CrabpotError(f"{path}: Claude Code takes no program whose path has a space; use --state DIR")
    write_whole(path, _WRAPPER.format(command=shlex.join(command(["prefix", "claude", *words]))))
    os.chmod(path, 0o700)
    return path


async def _run(app: App, options: Namespace) -> int:
    session = options.session or "agent:main:main"
    handed = Handed(options.command[0])
    args: dict[str, Any] = {"command": handed.command, "cwd": os.getcwd()}
    if options.timeout is not None:
        args["timeout"] = options.timeout
    console = Console()
    streams = Streams(
        source=None if handed.quiet else console.read(),
        sink=console.write,
        # The terminal is Claude Code's own, and a question there would be drawn over.
        approver=Notice(app.around.state),
        remark=remarks.shower(app.around.state),
        paced=True,
    )
    async with gateway(app) as opened:
        result = await opened.call(session, "exec", args, streams=streams)
        if result.success and handed.report is not None:
            noted = await opened.call(session, "read", {"path": handed.inside})
            report(handed, noted.as_json(), options.workspace)
    if result.error is not None:
        complain(visible(f"{result.error.code}: {result.error.message}"))
    return exit_code(result)
