"""`ports`: the ports inside live sandboxes that this machine reaches, through whichever gateway runs them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.frame import OK, UsageError
from crabpot.doors.cli.show import visible
from crabpot.doors.local.client import connect
from crabpot.doors.local.identity import SOCKET_NAME
from crabpot.doors.local.server import beside
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.local.client import RemoteGateway


def ports(frame: Frame, options: Namespace) -> int:
    """List, open or close ports."""
    if options.action != "list" and options.port is None:
        raise UsageError(f"which one? crabpot ports {options.action} PORT")
    request = {"action": options.action, "session": options.session, "port": options.port}
    rows = asyncio.run(_ask(frame.app().around.state, request))
    if options.json:
        print(json.dumps(rows, indent=2))
        return OK
    for row in rows:
        print(f"{row['port']:>5} inside: {row['address']}  {visible(row['session'])}")
    if not rows:
        print("no ports are open; crabpot ports open PORT opens one of a live sandbox")
    return OK


async def _ask(state: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask every gateway of this state folder for its ports, or the one that has the sandbox to change one."""
    found = [one for name in (SOCKET_NAME, *beside(state)) if (one := await connect(state, name=name)) is not None]
    try:
        if not found:
            raise CrabpotError("no gateway runs: start one with crabpot run or crabpot serve")
        if request["action"] == "list":
            return [row for one in found for row in await one.inquire("ports", **request)]
        return list(await (await _with_sandbox(found, request["session"])).inquire("ports", **request))
    finally:
        for one in found:
            await one.close()


async def _with_sandbox(found: list[RemoteGateway], session: str | None) -> RemoteGateway:
    """Return the only gateway that has live sandboxes, or one of this session."""
    live = [(one, await one.inquire("live")) for one in found]
    having = [one for one, rows in live if any(session in (None, row["scope_key"]) for row in rows)]
    if len(having) > 1:
        keys = ", ".join(visible(row["scope_key"]) for _, rows in live for row in rows)
        raise CrabpotError(f"which sandbox? Name one by --session: {keys}")
    return having[0] if having else found[0]
