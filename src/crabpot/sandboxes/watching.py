"""Watch the layers of sandboxes in which something runs: what each call changed, and that none outgrows `limits.disk`.

An ordinary file system has no wall for the latter, so what is written between two looks comes on top of the limit.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError, SandboxLost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from crabpot.sandboxes.live import Live
    from crabpot.spec.spec import SandboxSpec

_PAUSE_S = 1.0
# Between calls that follow at once there is no look: the next call would wait for the processor.
_REST_S = 0.05
# A look costs what is in the layer; the pauses between looks are this many times as long.
_PAUSES = 20


class Watch:
    """Looks at the layers of the sandboxes in which something runs, and at nothing while nothing does."""

    def __init__(self, give_up: Callable[[Live, str], None]) -> None:
        self._give_up = give_up
        self._watched: dict[Live, asyncio.Task[None]] = {}
        self._resting: dict[Live, asyncio.Task[None]] = {}

    def begun(self, live: Live) -> None:
        """Watch the size of a layer from a call on, until nothing runs in its sandbox."""
        if live not in self._watched:
            self._begin(self._watched, live, self._watch(live))

    def ended(self, live: Live) -> None:
        """Look at what a call changed, once its sandbox rests."""
        if live not in self._resting:
            self._begin(self._resting, live, self._look(live))

    @staticmethod
    def _begin(tasks: dict[Live, asyncio.Task[None]], live: Live, work: Coroutine[Any, Any, None]) -> None:
        task = tasks[live] = asyncio.create_task(work)
        task.add_done_callback(lambda _: tasks.pop(live, None))

    async def _look(self, live: Live) -> None:
        looked = 0.0
        while live.rested >= looked:
            await asyncio.sleep(max(0.0, live.rested + _REST_S - time.time()))
            if time.time() < live.rested + _REST_S:
                continue
            if live.lost or live.wire.busy or live.held is None:
                # Another call ends later; the layer of a lost one is looked at as it is released.
                return
            looked, clock = time.time(), time.monotonic()
            await asyncio.to_thread(live.held.look)
            await asyncio.sleep(_PAUSES * (time.monotonic() - clock))

    async def _watch(self, live: Live) -> None:
        pause = _PAUSE_S
        while not live.lost:
            await asyncio.sleep(pause)
            began, clock = time.time(), time.monotonic()
            problem = await _behind(live) or await asyncio.to_thread(_problem, live.wanted.spec)
            if problem is not None:
                live.ended_by = ("disk_limit", problem)
                self._give_up(live, problem)
            elif not (live.wire.busy or live.left_running or live.rested >= began):
                return
            pause = max(_PAUSE_S, _PAUSES * (time.monotonic() - clock))

    async def close(self) -> None:
        """Watch nothing any more."""
        watching = [*self._watched.values(), *self._resting.values()]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


async def _behind(live: Live) -> str | None:
    """Return why a layer cannot hold what its sandbox wrote elsewhere, or None once it does."""
    try:
        await live.bring_back()
    except SandboxLost as error:
        return str(error)
    return None


def _problem(spec: SandboxSpec | None) -> str | None:
    """Return why a sandbox must end, or None; run it in a thread."""
    from crabpot.layers import layer as layers  # noqa: PLC0415  most sandboxes have no layer
    from crabpot.layers.content import problem_with_size  # noqa: PLC0415

    assert spec is not None
    assert spec.layer is not None
    try:
        layer = layers.read(spec.layer)
        return None if layer is None else problem_with_size(layer, spec.limits.disk)
    except LayerError as error:
        return str(error)
    except OSError:
        # The agent moves what is looked at; the next look sees it where it is then.
        return None
