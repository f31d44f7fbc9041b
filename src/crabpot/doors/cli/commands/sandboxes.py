"""`sandboxes`: the live ones, and their private folders."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from crabpot.doors import sandboxes as kept_and_live
from crabpot.doors.cli import show
from crabpot.doors.cli.frame import FAILED, OK, UsageError, note
from crabpot.doors.cli.invocation import pasted
from crabpot.doors.cli.show import visible
from crabpot.doors.kept import Kept
from crabpot.doors.local.client import connect
from crabpot.sandboxes import private_folders

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame


def sandboxes(frame: Frame, options: Namespace) -> int:
    """List, stop, recreate or prune sandboxes."""
    if options.action in ("stop", "recreate") and options.name is None:
        raise UsageError(f"which one? crabpot sandboxes {options.action} NAME; see: crabpot sandboxes list")
    return asyncio.run(_sandboxes(frame.app(), options))


async def _sandboxes(app: App, options: Namespace) -> int:
    state = app.around.state
    remote = await connect(state)
    try:
        running = await remote.inquire("live") if remote else []
        told = await remote.inquire("gateway") if remote else None
        rows = kept_and_live.rows(Kept(state).rows(), running, gateway=told and told["pid"])
        if options.action == "list":
            _list(rows, as_json=options.json)
            if told is not None and not options.json:
                print(show.gateway(told))
            return OK
        if options.action == "prune":
            settings = app.settings()
            pruned = await remote.inquire("prune") if remote else None
            if pruned is None:
                pruned = kept_and_live.prune(app.around.state, settings, now=time.time())
            waiting = kept_and_live.unseen(app.around.state, settings)
            for warning in waiting:
                note(f"warning: {visible(warning)}")
            said = f"pruned {len(pruned)}: {', '.join(pruned) or 'nothing was stale'}"
            warnings = {"warnings": waiting} if waiting else {}
            print(json.dumps({"pruned": pruned, **warnings}, indent=2) if options.json else said)
            return OK
        one = kept_and_live.find(rows, options.name)
        stopped = await remote.inquire("stop", scope_key=one["scope_key"]) if remote else False
        if options.action == "stop":
            print(f"{one['name']}: {'stopped' if stopped else 'was not running'}")
            return OK
        return _remove(app, one, stopped=stopped)
    finally:
        if remote:
            await remote.close()


def _remove(app: App, one: dict[str, Any], *, stopped: bool) -> int:
    if one.get("folder") is not None:
        print(f"{one['name']}: {'stopped' if stopped else 'was not running'}; what it changed stays in its layer until")
        print(pasted(f"  crabpot changes discard --session {visible(one['session'])}"))
        return FAILED
    removed = private_folders.remove(app.around.state, lambda kept: kept.name == one["name"])
    # A sandbox with the agent's own folder at /workspace has no private folder.
    afresh = bool(removed) or (stopped and one["used"] is None)
    print(f"{one['name']}: {'its files are deleted; the next call starts afresh' if afresh else 'in use elsewhere'}")
    return OK if afresh else FAILED


def _list(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print("no sandboxes; a session's first call opens one")
    now = time.time()
    for row in rows:
        in_use = row.get("busy") or row["used"] is None
        used = "in use" if in_use else f"used {_ago(now - row['used'])}"
        print(f"{row['state']:<5} {row['name']:<50} {used}  {visible(row['scope_key'])}")


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
