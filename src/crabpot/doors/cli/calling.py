"""`exec`, `shell` and `call`: one tool call from the terminal, through a gateway that serves or one of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli import terminal
from crabpot.doors.cli.frame import DENIED, FAILED, OK, OWN_FAILURE, TIMEOUT, UsageError, complain, shell_text
from crabpot.doors.client import connect
from crabpot.errors import CrabpotError
from crabpot.execution import Streams
from crabpot.placement import sessions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Coroutine

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.client import RemoteGateway
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

_REFUSALS = ("denied", "approval_denied", "approval_timeout")

# A login-like shell where there is one; a plain one everywhere.
_SHELL = "if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi"


@contextlib.asynccontextmanager
async def gateway(app: App) -> AsyncIterator[Gateway | RemoteGateway]:
    """Use the gateway that serves this state folder, else one of our own for as long as the command takes."""
    remote = await connect(app.around.state)
    opened = app.gateway() if remote is None else remote
    try:
        yield opened
    finally:
        await opened.close()


def guarded(work: Coroutine[Any, Any, int]) -> int:
    """Run a command; our own failures, a bad configuration included, have a code of their own."""
    try:
        return asyncio.run(work)
    except CrabpotError as error:
        complain(str(error))
        return OWN_FAILURE


def execute(frame: Frame, options: Namespace) -> int:
    """Run a command in the session's place, its streams connected to ours."""
    if not options.command:
        complain("exec needs a command after --, as in: crabpot exec -- ls -l")
        return OWN_FAILURE
    args: dict[str, Any] = {"command": shell_text(options.command)}
    if options.cwd is not None:
        args["cwd"] = options.cwd
    if options.timeout is not None:
        args["timeout"] = options.timeout
    return guarded(_execute(frame, options.session, args, tty=options.tty))


def shell(frame: Frame, options: Namespace) -> int:
    """Open an interactive shell in the session's place."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("shell needs a terminal; in a script use: crabpot exec -- COMMAND")
    return guarded(_execute(frame, options.session, {"command": _SHELL}, tty=True, as_long_as_possible=True))


async def _execute(
    frame: Frame, session: str, args: dict[str, Any], *, tty: bool, as_long_as_possible: bool = False
) -> int:
    app = frame.app()
    if as_long_as_possible:
        settings = app.settings()
        agent = settings.agent(sessions.parse(session, default_agent=settings.default_agent).agent)
        args["timeout"] = agent.sandbox.limits.time_ceiling
    async with gateway(app) as opened:
        with terminal.taken(wanted=tty) as size:
            if size is not None:
                args["tty"] = {"rows": size[0], "cols": size[1]}
            streams = Streams(
                source=terminal.read_stdin(),
                sink=terminal.write_out,
                resizes=terminal.resizes() if size is not None else None,
            )
            result = await opened.call(session, "exec", args, streams=streams)
    _show_rest(result)
    return exit_code(result)


def _show_rest(result: ToolResult) -> None:
    for text, stream in ((result.stdout, sys.stdout), (result.stderr, sys.stderr)):
        if text:
            stream.write(text)
            stream.flush()
    if result.error is not None:
        complain(f"{result.error.code}: {result.error.message}")
    elif result.truncated:
        complain("the output was larger than limits.output; its middle is cut")


def exit_code(result: ToolResult) -> int:
    """Give the command's own exit code, or ours where it has none."""
    error = result.error
    if error is not None and error.code == "timeout":
        return TIMEOUT
    if error is not None and error.code in _REFUSALS:
        return DENIED
    return OWN_FAILURE if result.exit_code is None else result.exit_code


def call(frame: Frame, options: Namespace) -> int:
    """Call one tool and print its result as JSON."""
    return guarded(_call(frame, options))


async def _call(frame: Frame, options: Namespace) -> int:
    text = sys.stdin.read() if options.args == "-" else options.args
    try:
        args = json.loads(text)
    except ValueError as error:
        raise CrabpotError(f"--args is not JSON: {error}") from None
    if not isinstance(args, dict):
        raise CrabpotError('--args must be a JSON object, as in \'{"path": "notes.txt"}\'')
    async with gateway(frame.app()) as opened:
        result = await opened.call(options.session, options.tool, args)
    print(json.dumps(result.as_json(), indent=2))
    if result.error is not None and result.error.code in _REFUSALS:
        return DENIED
    return OK if result.success else FAILED
