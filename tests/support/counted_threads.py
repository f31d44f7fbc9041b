"""Threads that count what a loop gives them."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable


class CountedThreads(ThreadPoolExecutor):
    """An executor that counts its jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = 0

    @classmethod
    def of_this_loop(cls) -> Self:
        """Let the running loop use such threads from now on."""
        made = cls()
        asyncio.get_running_loop().set_default_executor(made)
        return made

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Count one."""
        self.jobs += 1
        return super().submit(fn, *args, **kwargs)
