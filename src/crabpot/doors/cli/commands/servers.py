"""`servers`: list the MCP servers, approve what they say of their tools, start them again."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from typing import TYPE_CHECKING, Any

from crabpot.approvals.display import line, shown
from crabpot.doors.cli.frame import FAILED, OK, UsageError, complain
from crabpot.doors.local.client import connect
from crabpot.errors import CrabpotError
from crabpot.servers import approval, offers
from crabpot.servers.naming import PROMPTS
from crabpot.servers.pins import Pins
from crabpot.wording import closest, counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import Settings


def list_servers(frame: Frame, options: Namespace) -> int:
    """List the configured servers."""
    app = frame.app()
    settings, pins = app.settings(), Pins(app.around.state)
    rows = [_row(name, settings, pins) for name in settings.mcp.servers]
    if options.json:
        print(json.dumps(rows, indent=2))
        return OK
    if not rows:
        print("no MCP servers; write them at mcp.servers of the configuration, or use: crabpot import mcp FILE")
    for row in rows:
        print(f"{row['name']:<20} {row['state']:<9} {counted(len(row['tools']), 'tool')}  {row['starts']}")
        if row["because"]:
            print(f"  {line(row['because'])}")
        for tool, why in row["withheld"].items():
            print(f"  ! {line(tool)}: {line(why)}")
    return OK


def _row(name: str, settings: Settings, pins: Pins) -> dict[str, Any]:
    server = settings.mcp.servers[name]
    found = offers.of(name, settings, pins)
    waiting = found.because is not None
    state = "waiting" if waiting else "changed" if pins.withheld(name) else "approved"
    return {
        "name": name,
        "state": state,
        "starts": line(server.url or "") if server.command is None else shown(_short(server.command)),
        "tools": [one.name for one in found.offered.values()],
        "withheld": dict(found.refused),
        "because": found.because,
    }


def _short(command: tuple[str, ...]) -> list[str]:
    return [word if len(word) <= 80 else f"{word[:79]}…" for word in command]  # noqa: PLR2004  a line's width


def approve(frame: Frame, options: Namespace) -> int:
    """Show what a server says of its tools, and pin it once the operator agrees."""
    app = frame.app()
    name = _known(options.name, app.settings())
    return asyncio.run(_approve(app, name, yes=options.yes))


def _known(name: str, settings: Settings) -> str:
    if name.lower() in settings.mcp.servers:
        return name.lower()
    raise UsageError(f'there is no server "{name}" in mcp.servers{closest(name, settings.mcp.servers)}')


async def _approve(app: App, name: str, *, yes: bool) -> int:
    from crabpot.servers.approving import candidate  # noqa: PLC0415  it imports the SDK

    gateway = app.gateway()
    assert gateway.servers is not None
    try:
        found = await candidate(gateway.servers, name)
        others = [one for one in gateway.settings.mcp.servers if one != name]
        for text in approval.parts(found.pin.lock, None if found.before is None else found.before.lock):
            print(text)
        for text in approval.report(found.pin.tools, found.before, others):
            print(text)
        if not found.news:
            print(f"{name}: nothing changed since it was approved")
            return OK
        what = _counted(found.pin.tools)
        if not yes and not _agrees(name, what):
            complain(f"the server {name} was not approved; its tools stay withheld")
            return FAILED
        found.keep(by=getpass.getuser())
        print(f"{name}: approved, {what}")
        return OK
    finally:
        await gateway.close()


def _counted(words: Iterable[str]) -> str:
    kinds = [word.startswith(PROMPTS) for word in words]
    prompts = f" and {counted(sum(kinds), 'prompt')}" if any(kinds) else ""
    return f"{counted(kinds.count(False), 'tool')}{prompts}"


def _agrees(name: str, what: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"approving asks on a terminal; once you have read the above: servers approve {name} --yes")
    print(f"The model will read these words as they are. Approve {what} of {name}? [y/N] ", end="")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def restart(frame: Frame, options: Namespace) -> int:
    """End a server where a gateway runs; its next call starts it."""
    app = frame.app()
    return asyncio.run(_restart(app, _known(options.name, app.settings())))


async def _restart(app: App, name: str) -> int:
    remote = await connect(app.around.state)
    if remote is None:
        print(f"{name}: no gateway runs, and so no server; the next call starts it")
        return OK
    try:
        ended = await remote.inquire("servers.restart", server=name)
    except CrabpotError as error:
        complain(str(error))
        return FAILED
    finally:
        await remote.close()
    print(f"{name}: {ended} ended; the next call starts it" if ended else f"{name}: was not running")
    return OK
