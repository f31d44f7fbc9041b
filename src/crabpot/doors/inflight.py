"""The calls of a door's clients, each in its own task: a disconnect cancels the call, and every end is awaited."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Answer = TypeVar("Answer")


class ClientGone(Exception):
    """The call was cancelled: its client is gone, or the door is closing."""


class Sign(asyncio.Event):
    """An event, such as that a client is gone, and whom to tell of it: no task has to wait for that."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Callable[[], object]] = []

    def set(self) -> None:
        """Note it, and tell, once."""
        if self.is_set():
            return
        super().set()
        for tell in self.told:
            tell()


class Calls:
    """The calls running for clients, each in a task that is cancelled once: it must first see its process tree gone.

    Frameworks cancel again and again while a request ends, so what is called below one gets its own task.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    def start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Start a call that may outlive the request that started it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever waits gets the exception; retrieving it once keeps asyncio from logging it.
            task.exception()

    async def finish(self, task: asyncio.Task[Answer], gone: Sign | None = None) -> Answer:
        """Wait for the result. If the client disconnects first, or this is cancelled, the call is cancelled."""
        await first_of(task, gone)
        try:
            if not task.done() or task.cancelled():
                raise ClientGone
            return task.result()
        finally:
            task.cancel()

    async def run(self, work: Coroutine[Any, Any, Answer], gone: Sign) -> Answer:
        """Run a call in the request's own task, which nothing else cancels: another would cost turns of the loop."""
        if gone.is_set():
            work.close()
            raise ClientGone
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        gone.told.append(task.cancel)
        try:
            return await work
        except asyncio.CancelledError:
            if not gone.is_set() and not self._closing:
                raise
            task.uncancel()
            raise ClientGone from None
        finally:
            gone.told.remove(task.cancel)
            self._tasks.discard(task)

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self, *, grace_s: float) -> None:
        """Let calls finish within the grace period, cancel the rest, and wait for their end."""
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        self._closing = True
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def first_of(task: asyncio.Task[Any], *signs: Sign | None) -> None:
    """Wait until a call has ended, or for a sign; the call is cancelled if this is."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    awaited = [sign for sign in signs if sign is not None]

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    task.add_done_callback(end)
    for sign in awaited:
        sign.told.append(end)
    try:
        if not any(sign.is_set() for sign in awaited):
            await over
    except BaseException:
        task.cancel()
        raise
    finally:
        task.remove_done_callback(end)
        for sign in awaited:
            sign.told.remove(end)
