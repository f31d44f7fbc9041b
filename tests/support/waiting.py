"""Waiting for a condition, for a bounded time: tests never sleep and hope."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


async def until(condition: Callable[[], Any], within_s: float = 90.0) -> Any:
    """Wait for a condition, which may be a coroutine function, and return what it returned."""
    deadline = time.monotonic() + within_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.002)


def wait_until(condition: Callable[[], Any], within_s: float = 90.0) -> Any:
    """Do the same outside an event loop."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return found
