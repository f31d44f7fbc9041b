"""Find the gateway of a state folder that is this caller's own, or leave one behind for the calls to come."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
from typing import TYPE_CHECKING

from crabpot.doors.local import detaching
from crabpot.doors.local.client import claim, connect
from crabpot.doors.local.ending import drain
from crabpot.errors import CrabpotError
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.app import App
    from crabpot.doors.local.client import RemoteGateway
    from crabpot.settings import Settings

LOCK_NAME = "gateway.lock"
_TURN_S, _LOOK_S = 90.0, 0.02
_OTHER = "the serving gateway has another configuration, so it is not used; restart it"
_DIFFERS = "the lingering gateway was started with other variables ({}), so it ends, and what it ran in the background"
_KEPT = "the serving gateway goes on as it is"


async def found(app: App) -> RemoteGateway | None:
    """Return the gateway that serves this caller, on the configuration as it is written now.

    A lingering one that is another's is drained, and the gateway of `serve` reads its file again.
    """
    remote = await connect(app.around.state, claims=claim(app.config))
    if remote is None or remote.is_kin(app.config):
        return remote
    if remote.lingers is not None:
        if remote.decides_by(app.config) and (names := remote.differs):
            print(f"crabpot: note: {_DIFFERS.format(', '.join(names))}", file=sys.stderr)
        await drain(remote)
        return None
    remote = await _reloaded(app, remote)
    if remote is None or remote.is_kin(app.config):
        return remote
    print(f"crabpot: note: {_OTHER}", file=sys.stderr)
    await remote.close()
    return None


async def _reloaded(app: App, remote: RemoteGateway) -> RemoteGateway | None:
    try:
        await remote.reload()
    except CrabpotError:
        # What is wrong with the file is what this caller is told when it reads it for itself.
        print(f"crabpot: note: {_KEPT}", file=sys.stderr)
    await remote.close()
    return await connect(app.around.state, claims=claim(app.config))


async def started(app: App, settings: Settings) -> RemoteGateway | None:
    """Start a gateway that lingers, and return it; None if it cannot be, or if one serves that is another's."""
    take(app.around.state)
    async with _turn(app.around.state):
        # Whoever had the turn before us has started it.
        remote = await connect(app.around.state, claims=claim(app.config))
        if remote is None:
            if not await detaching.start(app, settings):
                return None
            remote = await connect(app.around.state, claims=claim(app.config))
        if remote is not None and not remote.is_kin(app.config):
            await remote.close()
            return None
        return remote


@contextlib.asynccontextmanager
async def _turn(state: str) -> AsyncIterator[None]:
    """Let one caller at a time start a gateway; a caller whose turn never comes does without."""
    lock = os.open(os.path.join(state, LOCK_NAME), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(int(_TURN_S / _LOOK_S)):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            await asyncio.sleep(_LOOK_S)
        yield
    finally:
        os.close(lock)
