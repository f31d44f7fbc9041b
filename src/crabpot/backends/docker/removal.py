"""Remove a container, whatever state it is in; and create one so that it can be removed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from crabpot.backends.docker.engine import EngineAway, EngineError, EngineRefused
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from crabpot.backends.docker.engine import Engine

_NOT_FOUND, _CONFLICT = 404, 409
_LONGEST_S, _BY_ITSELF_S, _POLL_S = 20.0, 5.0, 0.02


async def made_or_removed(engine: Engine, making: Coroutine[None, None, str]) -> str:
    """Wait for a creation. If cancelled, wait on and remove what it made: only the engine's answer says what."""
    task = asyncio.ensure_future(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(EngineError, SandboxUnavailable):
            await remove(engine, await task)
        raise


async def remove(engine: Engine, container: str, *, longest_s: float = _LONGEST_S) -> None:
    """Kill it, and see that it is removed. Bounded: if the engine is away, the watchdog or the next gateway does it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            gone = await _is_gone(engine, container)
            while not gone:
                await asyncio.sleep(_POLL_S)
                gone = await _is_gone(engine, container)


async def _is_gone(engine: Engine, container: str) -> bool:
    path = f"/containers/{container}"
    try:
        await _kill(engine, path)
        # The engine removes by itself what ended. A second removal beside its own leaves a ghost in its list that
        # only a restart clears, so there is one only if the first does not happen.
        with contextlib.suppress(EngineAway):
            await engine.post(f"{path}/wait", {"condition": "removed"}, timeout_s=_BY_ITSELF_S)
        await engine.delete(path, {"force": "1", "v": "1"})
    except EngineRefused as error:
        return error.status == _NOT_FOUND
    except EngineAway:
        return False
    return True


async def _kill(engine: Engine, path: str) -> None:
    try:
        await engine.post(f"{path}/kill")
    except EngineRefused as error:
        if error.status != _CONFLICT:
            raise
        if (await engine.get(f"{path}/json"))["State"]["Status"] == "created":
            # It never ran, so it will never end.
            await engine.delete(path, {"force": "1", "v": "1"})
