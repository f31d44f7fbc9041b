"""Warns whoever pipes input to a host command that it gets none: a person agreed to its words, and to nothing else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot.sandboxes.remarks import Remark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crabpot.sandboxes.streams import Streams
    from crabpot.wire.calls import Source

_UNREAD = Remark(text="on the host a command gets no input: what was piped or typed to it is not read")


@asynccontextmanager
async def told_of_input(streams: Streams | None) -> AsyncIterator[None]:
    """Warn once, during the block, if input comes. One that is open and silent, as in a service, warns of nothing."""
    if streams is None or streams.source is None or streams.remark is None:
        yield
        return
    telling = asyncio.create_task(_tell(streams.source, streams.remark))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell(source: Source, remark: Callable[[Remark], None]) -> None:
    async for piece in source:
        if piece:
            remark(_UNREAD)
            return
