"""The sandboxes as doors show them: live ones, joined with private folders."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crabpot.backends.linux import usage
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.sandboxes import private_folders
from crabpot.spec.naming import sandbox_name

if TYPE_CHECKING:
    from crabpot.gateway import Gateway
    from crabpot.sandboxes.live import Live


def live(gateway: Gateway) -> list[dict[str, Any]]:
    """List the live sandboxes."""
    return [_shown(one) for one in gateway.execution.fleet.listed()]


def _shown(one: Live) -> dict[str, Any]:
    place, key = one.key
    limits = None if one.scope is None else one.scope.agent.sandbox.limits
    shown = limits and {"memory_bytes": limits.memory, "processes": limits.pids, "cpus": limits.cpus}
    return {
        "scope_key": key,
        "place": place.value,
        "started": one.started,
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
    # In a thread: an agent's files may take long to remove, and calls go on.
    state = gateway.execution.around.state
    pruned = await asyncio.to_thread(private_folders.prune, state, gateway.settings, now=now)
    return [kept.name for kept in pruned]


def rows(state: str, running: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join private folders and live sandboxes; a sandbox may have no private folder."""
    found: dict[str, dict[str, Any]] = {
        kept.scope_key: {
            "name": kept.name,
            "scope_key": kept.scope_key,
            "agent": kept.agent,
            "state": "kept",
            "created": kept.created,
            "used": kept.used,
        }
        for kept in private_folders.listed(state)
    }
    for one in running:
        if one["place"] == Place.SANDBOX.value:
            key = one["scope_key"]
            fresh = {
                "name": sandbox_name(key),
                "scope_key": key,
                "agent": None,
                "created": one["started"],
                "used": None,
            }
            shown = {name: one[name] for name in ("started", "busy", "limits", "usage") if name in one}
            found[key] = found.get(key, fresh) | {"state": "live"} | shown
    return sorted(found.values(), key=lambda row: str(row["name"]))


def find(listed: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the row of a name or scope key."""
    found = next((row for row in listed if name in (row["name"], row["scope_key"])), None)
    if found is None:
        names = ", ".join(row["name"] for row in listed) or "none"
        raise CrabpotError(f"no sandbox {name!r}; there are: {names}")
    return found
