"""How much a layer holds while its sandbox runs: looked at again and again, and ended beyond `limits.disk`.

An ordinary file system has no wall for this, so what is written between two looks comes on top of the limit.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from crabpot.errors import LayerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.sandboxes.live import Live
    from crabpot.spec.spec import SandboxSpec

_PAUSE_S = 1.0
# A look costs what is in the layer; the pauses between looks are this many times as long.
_PAUSES = 20


class Growth:
    """Looks at the layers of the sandboxes in which something runs, and at nothing while nothing does."""

    def __init__(self, give_up: Callable[[Live, str], None]) -> None:
        self._give_up = give_up
        self._watched: dict[Live, asyncio.Task[None]] = {}

    def watch(self, live: Live) -> None:
        """Watch the layer of a sandbox that has a call, if it has a layer, until nothing runs in it."""
        if live.reviewed and live not in self._watched:
            task = self._watched[live] = asyncio.create_task(self._watch(live))
            task.add_done_callback(lambda _: self._watched.pop(live, None))

    async def _watch(self, live: Live) -> None:
        pause = _PAUSE_S
        while not live.lost:
            await asyncio.sleep(pause)
            began, clock = time.time(), time.monotonic()
            problem = await asyncio.to_thread(_problem, live.wanted.spec)
            if problem is not None:
                live.ended_by = ("disk_limit", problem)
                self._give_up(live, problem)
            elif not (live.wire.busy or live.left_running or live.rested >= began):
                return
            pause = max(_PAUSE_S, _PAUSES * (time.monotonic() - clock))

    async def close(self) -> None:
        """Watch nothing any more."""
        watching = [*self._watched.values()]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


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
