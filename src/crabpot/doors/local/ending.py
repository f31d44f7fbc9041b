"""End the gateway of a state folder, or have a lingering one make room for another."""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING

from crabpot.doors.local.client import connect
from crabpot.doors.local.server import is_taken
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from crabpot.doors.local.client import RemoteGateway

# Longer than a gateway gives itself when told to end.
_END_S = 60.0
_ANSWER_S = 5.0
_LOOK_S = 0.05


async def end(state: str) -> int | None:
    """End the gateway that serves this folder, and wait until it is gone; return its process id."""
    remote = await connect(state)
    if remote is None:
        return None
    try:
        pid = int(await remote.inquire("end"))
        await _gone(pid)
    finally:
        await remote.close()
    return pid


async def _gone(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = await asyncio.to_thread(lambda: select.select([handle], [], [], _END_S))
    finally:
        os.close(handle)
    if not ended:
        raise CrabpotError(f"the gateway {pid} has not ended; kill -9 {pid} ends it, and its sandboxes with it")


async def drain(remote: RemoteGateway) -> None:
    """Have a lingering gateway take no more callers, and end once those it has are served."""
    try:
        await remote.inquire("drain")
    except CrabpotError:
        pass  # It ended meanwhile.
    finally:
        await remote.close()


async def take_over(state: str) -> None:
    """Make a lingering gateway leave the folder to this one."""
    if not is_taken(state):
        return
    remote = await connect(state, timeout_s=_ANSWER_S)
    if remote is not None and remote.lingers:
        await drain(remote)
    elif remote is not None:
        await remote.close()
        return
    for _ in range(int(_ANSWER_S / _LOOK_S)):
        if not is_taken(state):
            return
        await asyncio.sleep(_LOOK_S)
