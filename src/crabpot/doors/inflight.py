"""The calls of a door's clients, each in a task of its own: whoever leaves cancels its call; every end is awaited."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Answer = TypeVar("Answer")


class ClientGone(Exception):
    """The call was cancelled: nobody is left to answer, or the door closes."""


class Calls:
    """What is running for clients, until it has ended.

    A task of its own, because frameworks cancel again and again while a request ends: a call that is cancelled must
    first see its process tree gone.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begin one that may outlive the request that began it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever waits is told; asking once keeps asyncio from logging a failure that nobody waited for.
            task.exception()

    async def finish(self, task: asyncio.Task[Answer], gone: asyncio.Event | None = None) -> Answer:
        """Wait for the answer. If the client goes first, or we are told to stop, the call is cancelled."""
        leaving = None if gone is None else asyncio.create_task(gone.wait())
        try:
            await asyncio.wait({task} if leaving is None else {task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() or task.cancelled():
                raise ClientGone
            return task.result()
        finally:
            task.cancel()
            if leaving is not None:
                leaving.cancel()

    async def run(self, work: Coroutine[Any, Any, Answer], gone: asyncio.Event | None = None) -> Answer:
        """Do both."""
        return await self.finish(self.start(work), gone)

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self, *, grace_s: float) -> None:
        """Let what runs finish within the grace, cancel the rest, and wait for its end."""
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
