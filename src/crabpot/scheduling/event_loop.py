"""An event loop only for what waits: importing asyncio takes longer than most commands of the command line."""

from __future__ import annotations

from types import coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

Result = TypeVar("Result")


@coroutine
def in_loop() -> Generator[None, None, None]:
    """Await this before anything of asyncio: what follows it runs in an event loop."""
    yield


def run(work: Coroutine[None, None, Result]) -> Result:
    """Run a coroutine to its end; without an event loop as long as it does not request one by `in_loop`."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    import asyncio  # noqa: PLC0415  what this module is there to put off

    return asyncio.run(_finish(_Begun(work)))


class _Begun(Generic[Result]):
    """A coroutine that was begun outside: awaiting it continues it."""

    def __init__(self, work: Coroutine[None, None, Result]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, Result]:
        return (yield from self._work.__await__())


async def _finish(begun: _Begun[Result]) -> Result:
    return await begun
