"""MCP on standard input and output, which carry nothing but the protocol."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from mcp.server.stdio import stdio_server

from crabpot.doors.inflight import Calls
from crabpot.doors.mcp.passing import kinds
from crabpot.doors.mcp.server import Tools
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.mcp.server import Caller

# Larger than any call that the wire could carry.
_LONGEST_LINE = 64 * 1024 * 1024


class Writer(Protocol):
    """Where messages go."""

    async def write(self, text: str) -> None:
        """Write a message, at the pace of its reader."""

    async def flush(self) -> None:
        """Leave nothing buffered."""


async def serve(
    gateway: AnyGateway, caller: Caller, incoming: AsyncIterator[bytes], *, folder: str = "/workspace"
) -> None:
    """Serve one client on standard input and output."""
    await talk(gateway, caller, incoming, _Out(_take_standard_output()), folder=folder)


async def talk(
    gateway: AnyGateway, caller: Caller, incoming: AsyncIterator[bytes], out: Writer, *, folder: str = "/workspace"
) -> None:
    """Serve one client until its end of input; its calls end with it."""
    calls = Calls()
    passed = kinds(await gateway.passes(caller.session, host_allowed=caller.host_allowed))
    changing = bool(await gateway.stamps(caller.session, host_allowed=caller.host_allowed))
    tools = Tools(
        gateway=gateway,
        calls=calls,
        caller=lambda _context: caller,
        folder=folder,
        passed=passed,
        changing=changing,
    )
    server = tools.server()
    # Any two objects of these shapes do. The SDK's own read in a thread that cannot be cancelled, so that SIGTERM
    # would wait for the client's next line.
    streams: Any = stdio_server(cast("Any", _Lines(incoming)), cast("Any", out))
    try:
        async with streams as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await calls.close(grace_s=0)


def _take_standard_output() -> int:
    """Return standard output under another descriptor, and redirect prints to standard error."""
    taken = os.dup(1)
    os.dup2(2, 1)
    return taken


class _Lines:
    """The lines of a byte stream."""

    def __init__(self, incoming: AsyncIterator[bytes]) -> None:
        self._incoming = incoming

    async def __aiter__(self) -> AsyncIterator[str]:
        rest = bytearray()
        async for data in self._incoming:
            rest += data
            if b"\n" not in data:
                if len(rest) > _LONGEST_LINE:
                    raise CrabpotError(f"a message of more than {_LONGEST_LINE} bytes; no call is that large")
                continue
            *lines, last = rest.split(b"\n")
            rest = last
            for line in lines:
                if line.strip():
                    yield line.decode("utf-8", "replace")
        if rest.strip():
            yield rest.decode("utf-8", "replace")


class _Out:
    """Writes at the client's pace from a daemon thread: a client that never reads must not keep us from ending."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, daemon=True, name="crabpot-stdout").start()

    async def write(self, text: str) -> None:
        written = self._loop.create_future()
        self._queue.put((text.encode("utf-8", "replace"), written))
        await written

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def _write_all(self) -> None:
        failure: OSError | None = None
        while True:
            data, written = self._queue.get()
            view = memoryview(data)
            try:
                while view and failure is None:
                    view = view[os.write(self._handle, view) :]
            except OSError as error:
                failure = error
            with suppress(RuntimeError):  # The loop has already ended.
                self._loop.call_soon_threadsafe(_settle, written, failure)


def _settle(written: asyncio.Future[None], failure: OSError | None) -> None:
    if not written.done():
        if failure is None:
            written.set_result(None)
        else:
            written.set_exception(failure)
