"""`sandboxes` and `serve`: what lives, and keeping it alive."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import TYPE_CHECKING, Any

from crabpot import keeping
from crabpot.doors import serve as door
from crabpot.doors.cli.frame import FAILED, OK, UsageError
from crabpot.doors.cli.show import visible
from crabpot.doors.client import connect
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.placement.rules import sandbox_name

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway

_SWEEP_S = 60.0


def serve(frame: Frame, _options: Namespace) -> int:
    """Keep a gateway alive until a signal ends it."""
    asyncio.run(_serve(frame.app()))
    return OK


async def _serve(app: App) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    gateway = app.gateway()

    async def inquire(name: str, args: dict[str, Any]) -> Any:
        return await _inquire(gateway, app, name, args)

    try:
        async with door.serve(gateway, app.around.state, inquire, config=app.config) as path:
            gateway.execution.warm_up(gateway.settings)
            print(f"crabpot serves on {path}; end it with Ctrl-C", flush=True)
            while not ended.is_set():
                await _sweep(gateway, app)
                try:
                    await asyncio.wait_for(ended.wait(), _SWEEP_S)
                except TimeoutError:
                    continue
    finally:
        await gateway.close()


async def _sweep(gateway: Gateway, app: App) -> list[str]:
    """End idle and aged sandboxes, then drop the private folders that nobody came back to."""
    now = time.time()
    await gateway.execution.reap(now)
    # In a thread: what an agent left may take long to remove, and calls go on.
    pruned = await asyncio.to_thread(keeping.prune, app.around.state, gateway.settings, now=now)
    return [kept.name for kept in pruned]


async def _inquire(gateway: Gateway, app: App, name: str, args: dict[str, Any]) -> Any:
    fleet = gateway.execution.fleet
    if name == "live":
        return [
            {"scope_key": live.key[1], "place": live.key[0].value, "started": live.started, "busy": live.wire.busy}
            for live in fleet.listed()
        ]
    if name == "stop":
        return await fleet.stop((Place.SANDBOX, str(args.get("scope_key"))))
    if name == "prune":
        return await _sweep(gateway, app)
    raise CrabpotError(f"no inquiry is called {name!r}")


def sandboxes(frame: Frame, options: Namespace) -> int:
    """List, stop, recreate or prune."""
    if options.action in ("stop", "recreate") and options.name is None:
        raise UsageError(f"which one? crabpot sandboxes {options.action} NAME; see: crabpot sandboxes list")
    return asyncio.run(_sandboxes(frame.app(), options))


async def _sandboxes(app: App, options: Namespace) -> int:
    remote = await connect(app.around.state)
    try:
        rows = _rows(app, await remote.inquire("live") if remote else [])
        if options.action == "list":
            _list(rows, as_json=options.json)
            return OK
        if options.action == "prune":
            settings = app.settings()
            pruned = await remote.inquire("prune") if remote else None
            if pruned is None:
                pruned = [kept.name for kept in keeping.prune(app.around.state, settings, now=time.time())]
            print(f"pruned {len(pruned)}: {', '.join(pruned) or 'nothing was stale'}")
            return OK
        one = _find(rows, options.name)
        stopped = await remote.inquire("stop", scope_key=one["scope_key"]) if remote else False
        if options.action == "stop":
            print(f"{one['name']}: {'stopped' if stopped else 'was not running'}")
            return OK
        return _remove(app, one, stopped=stopped)
    finally:
        if remote:
            await remote.close()


def _remove(app: App, one: dict[str, Any], *, stopped: bool) -> int:
    removed = keeping.remove(app.around.state, lambda kept: kept.name == one["name"])
    # One that has the agent's own folder at /workspace keeps nothing besides.
    afresh = bool(removed) or (stopped and one["used"] is None)
    print(f"{one['name']}: {'its files are deleted, the next call starts afresh' if afresh else 'is in use elsewhere'}")
    return OK if afresh else FAILED


def _rows(app: App, live: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join what is kept and what lives: a sandbox without a private folder only lives."""
    rows: dict[str, dict[str, Any]] = {
        kept.scope_key: {
            "name": kept.name,
            "scope_key": kept.scope_key,
            "agent": kept.agent,
            "state": "kept",
            "created": kept.created,
            "used": kept.used,
        }
        for kept in keeping.listed(app.around.state)
    }
    for one in live:
        if one["place"] == Place.SANDBOX.value:
            key = one["scope_key"]
            fresh = {
                "name": sandbox_name(key),
                "scope_key": key,
                "agent": None,
                "created": one["started"],
                "used": None,
            }
            rows[key] = rows.get(key, fresh) | {"state": "live"}
    return sorted(rows.values(), key=lambda row: str(row["name"]))


def _find(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found = next((row for row in rows if name in (row["name"], row["scope_key"])), None)
    if found is None:
        names = ", ".join(row["name"] for row in rows) or "none"
        raise CrabpotError(f"no sandbox is called {name!r}; there are: {names}")
    return found


def _list(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    if not rows:
        print("no sandboxes; one is made by a session's first call")
    now = time.time()
    for row in rows:
        used = "in use" if row["used"] is None else f"used {_ago(now - row['used'])}"
        print(f"{row['state']:<5} {row['name']:<50} {used}  {visible(row['scope_key'])}")


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"
