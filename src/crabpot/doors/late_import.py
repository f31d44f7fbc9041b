"""Import what takes long when somebody first needs it: the MCP SDK, the E2B API. Few gateways are asked for either."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_imported: dict[Callable[[], Any], Any] = {}


async def imported(load: Callable[[], T]) -> T:
    """Return what a function imports. Everybody else's calls go on while a thread does that."""
    if load not in _imported:
        _imported[load] = await asyncio.to_thread(_import, load)
    found: T = _imported[load]
    return found


def _import(load: Callable[[], T]) -> T:
    found = load()
    # What was imported never becomes garbage: it is not searched for any.
    gc.freeze()
    return found
