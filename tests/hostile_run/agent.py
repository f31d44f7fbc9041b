"""What a hostile agent and a hostile token do with everything that they are given, all at once, until told to stop.

A program of its own (`python -m tests.hostile_run.agent STATE PORT TOKEN`), so that what it does costs nobody who measures
anything: it begins, says so, goes on until its input ends, and prints how much it did.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING

from crabpot.doors.local.client import connect
from crabpot.errors import CrabpotError
from tests.hostile_run.token import HostileToken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from crabpot.doors.local.client import RemoteGateway
    from crabpot.model import ToolResult

AGENT, TOKENS_AGENT = "hostile", "visitor"
SESSIONS, AT_ONCE = 40, 2000
_AGAIN_S = 2.0

# Two hundred connections at a time, each to a name of its own; whatever comes of them, the next follow.
_CONNECTS = """
import itertools, socket, sys
kept = []
for number in itertools.count():
    link = socket.create_connection(("127.0.0.1", 3128))
    link.sendall(b"CONNECT n%d.{zone}:443 HTTP/1.1\\r\\n\\r\\n" % (number % {names}))
    link.setblocking(False)
    kept.append(link)
    if len(kept) >= {held}:
        old = kept.pop(0)
        if not {waits}:
            old.setblocking(True)
            old.recv(65536)
        old.close()
"""
_FORKS = "b() { b | b & }; b; sleep 5"
_MEMORY = "python3 -c 'x = [bytearray(1 << 20) for _ in range(100000)]'"
# Starting them takes most of a minute of what such a sandbox has of a processor.
_SHIMS = "for n in $(seq 40); do uname -a >/dev/null 2>&1 & done; wait"
_BACKGROUND = "while :; do seq 1000; done"


@dataclass(slots=True)
class Hostile:
    """Its deeds, and how many calls it made of each."""

    state: str
    made: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _clients: list[RemoteGateway] = field(default_factory=list)

    async def start(self) -> None:
        """Begin all of it."""
        deeds: list[tuple[str, int, Callable[[RemoteGateway], Awaitable[ToolResult]]]] = [
            ("output floods", 4, _shell("output", "yes | head -c 100000000")),
            ("big results", 8, _shell("results", "head -c 900000 /dev/zero")),
            ("connects to silent names", 2, _python("silent", zone="silent.example", names=10**9, held=190, waits=1)),
            ("connects that are refused", 1, _python("refused", zone="evil.example", names=1, held=8, waits=0)),
            ("connects elsewhere, refused", 1, _python("many", zone="evil.example", names=10**9, held=8, waits=0)),
            ("fork bombs", 1, _shell("forks", _FORKS)),
            ("memory hogs", 1, _shell("memory", _MEMORY)),
            ("host commands that nobody answers", 2, _shell("shims", _SHIMS)),
            ("background processes", 2, _call("background", "exec", command=_BACKGROUND, background=True)),
        ]
        for name, times, deed in deeds:
            for _ in range(times):
                await self._begin(name, deed)
        for number in range(SESSIONS):
            await self._begin("many sessions", _shell(f"session-{number}", "seq 100000"))
        await self._crowd()

    async def _client(self) -> RemoteGateway:
        client = await connect(self.state)
        assert client is not None
        self._clients.append(client)
        return client

    async def _begin(self, name: str, deed: Callable[[RemoteGateway], Awaitable[ToolResult]]) -> None:
        self._start(self._again(name, await self._client(), deed))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _again(
        self, name: str, client: RemoteGateway, deed: Callable[[RemoteGateway], Awaitable[ToolResult]]
    ) -> None:
        with suppress(CrabpotError):
            while True:
                self._count(name, await deed(client))

    async def _crowd(self) -> None:
        """Thousands of calls at the same time, as many as a client may have on each connection."""
        waiting = [("calls at the same time", _shell("crowd", "sleep 30"))] * (AT_ONCE // 200)
        # As many requests for a person as an agent may have.
        waiting += [("commands that nobody allows", _shell(f"asks-{number}", "uname -a")) for number in range(3)]
        for name, deed in waiting:
            client = await self._client()
            for _ in range(200):
                self._start(self._again(name, client, deed))

    def _count(self, name: str, result: ToolResult) -> None:
        self.made[name] = self.made.get(name, 0) + 1
        if result.error is not None:
            code = result.error.code
            self.refused[code] = self.refused.get(code, 0) + 1
            if code == "internal":
                # Nothing that an agent does should lead to this: it is said what did.
                print(f"{name}: {result.error.message}", file=sys.stderr)

    async def stop(self) -> None:
        """End all of it, as a client that hangs up."""
        for client in self._clients:
            await client.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _call(session: str, tool: str, **args: Any) -> Callable[[RemoteGateway], Awaitable[ToolResult]]:
    async def deed(client: RemoteGateway) -> ToolResult:
        result = await client.call(f"agent:{AGENT}:{session}", tool, args)
        if not result.success:
            # Whoever passes an agent's calls on tells it of a refusal, and it tries again.
            await asyncio.sleep(_AGAIN_S)
        return result

    return deed


def _shell(session: str, command: str) -> Callable[[RemoteGateway], Awaitable[ToolResult]]:
    return _call(session, "exec", command=command)


def _python(session: str, **given: Any) -> Callable[[RemoteGateway], Awaitable[ToolResult]]:
    return _shell(session, f"python3 -c {quote(_CONNECTS.format(**given))}")


async def _main(state: str, port: str, token: str) -> None:
    hostile, at_doors = Hostile(state), HostileToken(int(port), token, TOKENS_AGENT)
    await hostile.start()
    async with at_doors.at_work():
        print("started", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    await hostile.stop()
    report = {"made": hostile.made, "refused": hostile.refused, "at_doors": at_doors.done}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
