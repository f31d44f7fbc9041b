"""`exec`, `shell` and `call`: one tool call from the terminal, through a serving gateway or one of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

from crabpot.decide import placement, sessions
from crabpot.doors.cli import remarks
from crabpot.doors.cli.frame import DENIED, FAILED, OK, OWN_FAILURE, TIMEOUT, UsageError, complain, note, shell_text
from crabpot.doors.cli.show import visible
from crabpot.doors.cli.terminal import prompt, raw_mode
from crabpot.doors.cli.terminal.console import Console
from crabpot.doors.local.finding import found, started
from crabpot.model import Place
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Coroutine

    from crabpot.app import App
    from crabpot.approvals.approver import Approver
    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.cli.frame import Frame
    from crabpot.model import ToolResult
    from crabpot.settings import Settings

_REFUSALS = ("denied", "approval_denied", "approval_timeout")
_OWN_FAILURES = ("sandbox_unavailable", "sandbox_lost", "internal")

# Bash if there is one; sh exists everywhere.
_SHELL = "if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi"


@contextlib.asynccontextmanager
async def gateway(app: App, approver: Approver | None = None) -> AsyncIterator[AnyGateway]:
    """Use the gateway of this state folder, else start one that lingers, else have one for as long as this takes.

    `approver` is asked by one of our own: any other has operators of its own.
    """
    remote = await found(app)
    opened: AnyGateway
    if remote is not None:
        opened = remote
    else:
        settings = app.settings()
        left = await started(app, settings) if app.linger(settings) else None
        opened = left or _own(app, settings, approver)
    try:
        yield opened
    finally:
        await opened.close()


def _own(app: App, settings: Settings, approver: Approver | None) -> AnyGateway:
    made = app.gateway(settings=settings)
    made.desk.ends_with = "this command"
    if approver is not None:
        made.desk.attach(approver)
    return made


def finished(work: Coroutine[Any, Any, int]) -> int:
    """Run a command to its end. On a signal it first ends what it started and restores the terminal."""

    async def run() -> int:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


def longest(app: App, session: str) -> float:
    """Return the longest time limit that a call of this session may ask for."""
    settings = app.settings()
    agent = settings.agent(sessions.parse(session, default_agent=settings.default_agent).agent)
    return agent.sandbox.limits.time_ceiling


def execute(frame: Frame, options: Namespace) -> int:
    """Run a command where the session is placed, its streams connected to ours."""
    if not options.command:
        raise UsageError("exec needs a command after --, as in: crabpot exec -- ls -l")
    sessions.parse(options.session)
    args: dict[str, Any] = {"command": shell_text(options.command)}
    if options.cwd is not None:
        args["cwd"] = options.cwd
    if options.timeout is not None:
        args["timeout"] = options.timeout
    return finished(_execute(frame.app(), options.session, args, tty=options.tty))


def shell(frame: Frame, options: Namespace) -> int:
    """Open an interactive shell where the session is placed."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise UsageError("shell needs a terminal; in a script use: crabpot exec -- COMMAND")
    app = frame.app()
    settings = app.settings()
    session = sessions.parse(options.session, default_agent=settings.default_agent)
    placed = placement.decide(session, settings.agent(session.agent))
    shown = options.session if re.fullmatch(r"[A-Za-z0-9:._-]+", options.session) else "crabpot"
    prompt = {"PS1": f"[crabpot {shown}] \\w $ "} if placed.answer.where is Place.SANDBOX else {}
    args = {"command": _SHELL, "timeout": longest(app, options.session), "env": prompt}
    code = finished(_execute(app, options.session, args, tty=True))
    return FAILED if code in (TIMEOUT, OWN_FAILURE, DENIED) else code


async def _execute(app: App, session: str, args: dict[str, Any], *, tty: bool) -> int:
    async with gateway(app) as opened:
        with raw_mode.taken(wanted=tty) as size:
            if size is not None:
                args["tty"] = {"rows": size[0], "cols": size[1]}
                args["env"] = {**raw_mode.kind(), **args.get("env", {})}
            console = Console()
            streams = Streams(
                source=console.read(),
                sink=console.write,
                resizes=raw_mode.resizes() if size is not None else None,
                approver=prompt.approver(console, app.around.state),
                remark=remarks.shower(app.around.state, raw=size is not None),
                # Whoever reads the pipe sets the pace, and gets all of it.
                paced=True,
            )
            result = await opened.call(session, "exec", args, streams=streams)
    if result.error is not None:
        # One line, whatever file names the message contains: more lines would look like messages of ours.
        complain(visible(f"{result.error.code}: {result.error.message}"))
    return exit_code(result)


def exit_code(result: ToolResult) -> int:
    """Return the command's own exit code, or ours if it has none."""
    error = result.error
    if error is not None and error.code == "timeout":
        return TIMEOUT
    if error is not None and error.code in _REFUSALS:
        return DENIED
    return OWN_FAILURE if result.exit_code is None else result.exit_code


def call(frame: Frame, options: Namespace) -> int:
    """Call one tool and print its result as JSON."""
    sessions.parse(options.session)
    return finished(_call(frame.app(), options))


async def _call(app: App, options: Namespace) -> int:
    args = _arguments(options.args)
    async with gateway(app) as opened:
        approver = prompt.approver(Console(), app.around.state)
        streams = Streams(approver=approver, remark=remarks.shower(app.around.state))
        result = await opened.call(options.session, options.tool, args, streams=streams)
    print(json.dumps(result.as_json(), indent=2))
    if result.success and args.get("background") and opened.ends_on_close:
        note("that process has ended with this command; crabpot serve keeps sandboxes, and what runs in them, alive")
    if result.error is not None and result.error.code in _REFUSALS:
        return DENIED
    if result.error is not None and result.error.code in _OWN_FAILURES:
        return OWN_FAILURE
    return OK if result.success else FAILED


def _arguments(text: str) -> dict[str, Any]:
    try:
        args = json.loads(sys.stdin.buffer.read() if text == "-" and sys.stdin else text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--args is not JSON: {error}") from None
    if not isinstance(args, dict):
        raise UsageError('--args must be a JSON object, as in \'{"path": "notes.txt"}\'')
    return args
