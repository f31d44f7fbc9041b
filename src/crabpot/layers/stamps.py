"""When a layer was mounted: a file that the host changed after a mount began may differ from what the agent saw."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import NamedTuple

from crabpot.errors import LayerError
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

_FILE = "mounts.json"
# The clock that the kernel stamps files from, which Python has no name for: a finer one would be ahead of it.
_REALTIME_COARSE = 5
_LARGEST = 1024 * 1024
# Older ones become one: from its start on every change of the host's counts, which is one conflict too many at worst.
_KEPT = 1000


class Mounted(NamedTuple):
    """One mount of a layer, in nanoseconds of the realtime clock, as the kernel stamps files; None: not ended."""

    opened_ns: int
    closed_ns: int | None


def mounts(layer: str) -> list[Mounted]:
    """Return the mounts of the layer at a path, the oldest first; LayerError if they cannot be read."""
    try:
        found = json.loads(read_regular(os.path.join(layer, _FILE), most=_LARGEST))
        return [Mounted(int(opened), None if closed is None else int(closed)) for opened, closed in found]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise LayerError(f"when the layer {layer} was mounted cannot be read: {error}") from None


def opened(layer: str) -> None:
    """Note that a layer is about to be mounted; a mount whose end nobody noted ended by now."""
    now = _now()
    _write(layer, [*_ended(mounts(layer), now), Mounted(now, None)])


def closed(layer: str) -> None:
    """Note that a layer is mounted no more; one that was forgotten meanwhile needs no note."""
    with suppress(FileNotFoundError):
        _write(layer, _ended(mounts(layer), _now()))


def adopt(layer: str, source: str) -> None:
    """Record for a layer that was copied from another the mounts in which its files came to be."""
    _write(layer, _ended(mounts(source), _now()))


def _now() -> int:
    return time.clock_gettime_ns(_REALTIME_COARSE)


def _ended(found: list[Mounted], now: int) -> list[Mounted]:
    return [one if one.closed_ns is not None else Mounted(one.opened_ns, now) for one in found]


def _write(layer: str, found: list[Mounted]) -> None:
    many = len(found) - _KEPT
    if many > 0:
        found = [Mounted(found[0].opened_ns, found[many].closed_ns), *found[many + 1 :]]
    write_whole(os.path.join(layer, _FILE), json.dumps(found))
