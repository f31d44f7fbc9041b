"""The sandboxes as doors show them: live ones, joined with private folders."""

from __future__ import annotations

import asyncio
import heapq
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crabpot.backends.linux import usage
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.sandboxes import private_folders, under_review
from crabpot.spec.naming import sandbox_name

if TYPE_CHECKING:
    from crabpot.doors.kept import Rows
    from crabpot.gateway import Gateway
    from crabpot.sandboxes.live import Live
    from crabpot.settings import Settings

_OF_LIVE = ("started", "busy", "limits", "usage")
# An agent may leave thousands of folders, and a page that lists them all again and again costs everybody.
MOST_KEPT = 500


def live(gateway: Gateway) -> list[dict[str, Any]]:
    """List the live sandboxes."""
    return [shown(one) for one in gateway.execution.fleet.listed()]


def shown(one: Live) -> dict[str, Any]:
    """Return what is shown of a live sandbox."""
    place, key = one.key
    limits = None if one.scope is None else one.scope.agent.sandbox.limits
    # What is not kept for the sandbox as a whole is no limit to compare its use with.
    short = {clause.name for clause in one.clauses if clause.state == "degraded"}
    shown = limits and {
        "memory_bytes": None if "limits.memory" in short else limits.memory,
        "processes": limits.pids,
        "cpus": None if "limits.cpus" in short else limits.cpus,
    }
    return {
        "scope_key": key,
        "place": place.value,
        "started": one.started,
        "used": one.used,
        "busy": one.wire.busy,
        "pid": one.sandbox.pid,
        "limits": shown,
    }


def used(running: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the current resource usage. Run it in a thread: it reads a few files for every process."""
    return [row | {"usage": None if row["pid"] is None else asdict(usage.of(row["pid"]))} for row in running]


async def stop(gateway: Gateway, scope_key: str) -> bool:
    """Stop the sandbox of a scope; return whether there was one."""
    return await gateway.execution.fleet.stop((Place.SANDBOX, scope_key))


async def sweep(gateway: Gateway) -> list[str]:
    """Stop idle and old sandboxes, then remove expired private folders."""
    now = time.time()
    await gateway.execution.reap(now)
    if gateway.servers is not None:
        await gateway.servers.reap(now)
    # In a thread: an agent's files may take long to remove, and calls go on.
    state = gateway.execution.around.state
    return await asyncio.to_thread(prune, state, gateway.settings, now=now)


def prune(state: str, settings: Settings, *, now: float) -> list[str]:
    """Remove the private folders and layers that are stale, and return their names."""
    folders = private_folders.prune(state, settings, now=now)
    return [*(kept.name for kept in folders), *under_review.prune(state, settings, now=now)]


def unseen(state: str, settings: Settings) -> list[str]:
    """Return a warning for each stale layer that stays because nobody looked at its changes."""
    return [
        f"{layer.name} stays: nobody has looked at what {layer.session} changed in {layer.folder}; "
        f"crabpot changes list --session {layer.session}"
        for layer in under_review.unseen(state, settings, now=time.time())
    ]


def rows(
    kept: Rows, running: list[dict[str, Any]], *, gateway: int | None = None, most: int | None = None
) -> list[dict[str, Any]]:
    """Join private folders, layers and live sandboxes of the process `gateway`; a sandbox may have neither.

    `most`: how many of those are shown in which nothing lives.
    """
    found = dict(kept if most is None else newest(kept, most))
    whose = {} if gateway is None else {"gateway": gateway}
    for one in running:
        if one["place"] == Place.SANDBOX.value:
            found[one["scope_key"]] = joined(kept.get(one["scope_key"]), one) | whose
    return sorted(found.values(), key=lambda row: str(row["name"]))


def newest(kept: Rows, most: int = MOST_KEPT) -> Rows:
    """Return the private folders and layers that a page is sent: those that were used last."""
    return kept if len(kept) <= most else dict(heapq.nlargest(most, kept.items(), key=_when_used))


def _when_used(item: tuple[str, dict[str, Any]]) -> float:
    return item[1]["used"] or 0.0


def joined(kept: dict[str, Any] | None, one: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a live sandbox and what it keeps, if anything."""
    # Its folder was last marked when the sandbox opened.
    row = _fresh(one) if kept is None else {**kept, "used": one["used"]}
    return row | {"state": "live"} | {name: one[name] for name in _OF_LIVE if name in one}


def _fresh(one: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a sandbox that keeps nothing."""
    key = one["scope_key"]
    return {"name": sandbox_name(key), "scope_key": key, "agent": None, "created": one["started"], "used": None}


def find(listed: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a name or scope key."""
    found = next((row for row in listed if name in (row["name"], row["scope_key"])), None)
    if found is None:
        names = ", ".join(row["name"] for row in listed) or "none"
        raise CrabpotError(f"no sandbox {name!r}; there are: {names}")
    return found
