"""Containers that a dead gateway left on an engine, found by label and name, and removed. Others are not touched."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from crabpot.backends.docker import owner
from crabpot.backends.docker.removal import remove

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine


async def reap(engine: Engine, state: str) -> list[str]:
    """Remove the containers of this state folder whose gateway is gone, and return their names."""
    filters = json.dumps({"label": [f"{owner.STATE}={state}"]})
    listed = await engine.get("/containers/json", {"all": "1", "filters": filters})
    ours = [one for one in listed if owner.is_ours(one.get("Names") or ())]
    dead = [one for one in ours if not owner.is_alive((one.get("Labels") or {}).get(owner.OWNER, ""))]
    await asyncio.gather(*(remove(engine, one["Id"]) for one in dead))
    return [name.lstrip("/") for one in dead for name in one.get("Names") or ()]
