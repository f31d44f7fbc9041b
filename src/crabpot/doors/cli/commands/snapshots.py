"""`snapshots` and `fork`: what a session has written, kept under names and copied for other sessions."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from crabpot.doors import snapshots as door
from crabpot.doors.cli.frame import OK, UsageError
from crabpot.doors.cli.show import visible
from crabpot.doors.local.client import connect
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame


def snapshots(frame: Frame, options: Namespace) -> int:
    """Save, list, restore or remove snapshots."""
    if options.action != "list" and options.name is None:
        raise UsageError(f"which one? crabpot snapshots {options.action} NAME")
    request = {"action": options.action, "session": options.session, "name": options.name}
    answer = asyncio.run(_ask(frame.app(), request))
    if options.json:
        print(json.dumps(answer, indent=2))
    elif options.action == "list":
        _list(answer["snapshots"])
    else:
        said = {"save": "saved", "restore": "restored", "remove": "removed"}[options.action]
        print(f"{said} {options.name} of {visible(options.session)}")
    return OK


def fork(frame: Frame, options: Namespace) -> int:
    """Copy what one session has written to others."""
    answer = asyncio.run(_ask(frame.app(), {"action": "fork", "session": options.source, "to": options.targets}))
    if options.json:
        print(json.dumps(answer, indent=2))
    else:
        print(f"forked {visible(options.source)} to {counted(len(options.targets), 'session')}")
    return OK


async def _ask(app: App, request: dict[str, Any]) -> dict[str, Any]:
    """Ask the gateway that runs, which may have the sandbox; or do it here."""
    remote = await connect(app.around.state)
    if remote is not None:
        try:
            answered: dict[str, Any] = await remote.inquire("snapshots", request=request)
            return answered
        finally:
            await remote.close()
    gateway = app.gateway()
    try:
        return await door.answer(gateway, request, by="the terminal")
    finally:
        await gateway.close()


def _list(found: list[dict[str, Any]]) -> None:
    if not found:
        print("no snapshots; crabpot snapshots save NAME makes one")
    for one in found:
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["created"]))
        print(f"{one['name']:<32} {made}  {visible(one['folder'] or 'its private folder')}")
