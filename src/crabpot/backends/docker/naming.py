"""Create a container under the name of its sandbox, even if that name is taken."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker import owner
from crabpot.backends.docker.engine import EngineRefused
from crabpot.backends.docker.removal import remove
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine

_CREATE_S = 120.0
_CONFLICT, _NOT_FOUND = 409, 404
_TRIES, _POLL_S = 200, 0.05


async def create_passing(engine: Engine, body: dict[str, Any]) -> str:
    """Create a short-lived container, under a name that only tells whose it is; return its id."""
    name = {"name": f"crabpot-passing-{os.urandom(8).hex()}"}
    return str((await engine.post("/containers/create", name, body=body, timeout_s=_CREATE_S))["Id"])


async def create(engine: Engine, name: str, body: dict[str, Any]) -> str:
    """Create a container and return its id. A stranger's container of that name stays, and ours gets a longer one."""
    labels = body["Labels"]
    for wanted in (name, f"{name}-{labels[owner.STATE][:8]}"):
        for _ in range(_TRIES):
            try:
                made = await engine.post("/containers/create", {"name": wanted}, body=body, timeout_s=_CREATE_S)
                return str(made["Id"])
            except EngineRefused as error:
                if error.status != _CONFLICT or "name" not in str(error):
                    raise
            if not await _free_name(engine, wanted, labels):
                break
    raise SandboxUnavailable(
        f"the engine has containers called {name} and {wanted} that are not Crabpot's: rename them"
    )


async def _free_name(engine: Engine, name: str, labels: dict[str, str]) -> bool:
    """Free a name if its container is ours and dead or retiring; return False if it is somebody else's."""
    try:
        holder = await engine.get(f"/containers/{name}/json")
    except EngineRefused as error:
        if error.status != _NOT_FOUND:
            raise
        # It is just being removed; the engine frees the name a moment later.
        await asyncio.sleep(_POLL_S)
        return True
    held = holder["Config"].get("Labels") or {}
    owned_by = held.get(owner.OWNER)
    if owned_by is None or held.get(owner.STATE) != labels[owner.STATE]:
        return False
    with contextlib.suppress(EngineRefused):
        if owned_by == labels[owner.OWNER]:
            # Our own, on its way out: its calls may finish, under another name.
            await engine.post(f"/containers/{holder['Id']}/rename", {"name": f"{name}-{holder['Id'][:8]}"})
            return True
        if not owner.is_alive(owned_by):
            await remove(engine, holder["Id"])
            return True
    if owned_by != labels[owner.OWNER] and owner.is_alive(owned_by):
        raise SandboxUnavailable(
            f"the sandbox {name} is open in another gateway over the same state, process {owner.process_of(owned_by)}: "
            "use that one (crabpot serve), stop it, or give this one a --state of its own"
        )
    await asyncio.sleep(_POLL_S)
    return True
