"""Connect two gits over two wires: the sandbox's own, and the host's in the gateway's repository."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git.inside import FD_REMOTE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crabpot.host_commands.git.inside import Inside
    from crabpot.host_commands.git.outside import Outside
    from crabpot.wire.in_flight import Sink

# The most that may be in transit between the two, in pieces of at most a frame.
_PIECES = 16


class _Pipe:
    """Carries bytes one way at the pace of its reader."""

    def __init__(self, judge: Callable[[bytes], bytes] | None = None) -> None:
        self._pieces: deque[bytes] = deque()
        self._judge = judge
        self._filled, self._room = asyncio.Event(), asyncio.Event()
        self._ended = self._abandoned = False

    async def put(self, data: bytes) -> None:
        """Add bytes; wait while too many are unread."""
        passed = data if self._judge is None else self._judge(data)
        while len(self._pieces) >= _PIECES and not self._abandoned:
            self._room.clear()
            await self._room.wait()
        if passed and not self._abandoned:
            self._pieces.append(passed)
            self._filled.set()

    def end(self) -> None:
        """Mark EOF."""
        self._ended = True
        self._filled.set()

    def abandon(self) -> None:
        """Mark that nobody reads any more, and release whoever waits to put bytes."""
        self._abandoned = True
        self._pieces.clear()
        self._room.set()

    async def read(self) -> AsyncIterator[bytes]:
        """Yield the bytes in order."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._room.set()
                yield piece
            if self._ended:
                return
            self._filled.clear()
            await self._filled.wait()


async def connect(  # noqa: PLR0913  both gits, their arguments, and who gets the output
    inside: Inside,
    inside_words: tuple[str, ...],
    outside: Outside,
    service: tuple[str, ...],
    *,
    tell: Sink,
    url: str | None = None,
    judge: Callable[[bytes], bytes] | None = None,
) -> int:
    """Run both gits to their end; return the exit code of the one inside, whose messages go to `tell`.

    Git inside speaks to the gateway in place of `url`. `judge` sees first what comes from inside. If one of them
    fails or is cancelled, so is the other.
    """
    outward, inward = _Pipe(judge), _Pipe()
    said: bytearray = bytearray()

    async def from_inside(stream: str, data: bytes) -> None:
        if stream == "stdout":
            await outward.put(data)
        else:
            await tell(stream, data.replace(f"{FD_REMOTE}/".encode(), b""))

    async def from_outside(stream: str, data: bytes) -> None:
        if stream == "stdout":
            await inward.put(data)
        elif len(said) < 1 << 16:
            said.extend(data)

    async def run_inside() -> int:
        try:
            reply = await inside.connect(*inside_words, env=_rewriting(url), source=inward.read(), sink=from_inside)
        finally:
            outward.end()
            inward.abandon()
        return 1 if reply.exit_code is None else reply.exit_code

    async def run_outside() -> int:
        try:
            reply = await outside.run(*service, outside.store.path, source=outward.read(), sink=from_outside)
        finally:
            inward.end()
            outward.abandon()
        return 1 if reply.exit_code is None else reply.exit_code

    try:
        async with asyncio.TaskGroup() as tasks:
            near, far = tasks.create_task(run_inside()), tasks.create_task(run_outside())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    if near.result() == 0 and far.result() != 0:
        raise HostRefused("internal", f"git {service[-1]}: {said.decode('utf-8', 'replace').strip()[-2000:]}")
    return near.result()


def _rewriting(url: str | None) -> dict[str, str]:
    """Return the configuration that connects git inside to the gateway; the text after the slash is for messages."""
    if url is None:
        return {}
    key = f"url.{FD_REMOTE}/{url}.insteadOf"
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": key, "GIT_CONFIG_VALUE_0": url}
