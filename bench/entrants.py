"""Crabpot's own entrants: a call in a sandbox that is kept, and the first call of a new session."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.contest import Entrant, one_by_one
from crabpot.errors import CrabpotError
from crabpot.model import Place

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

SESSION = "agent:main:bench"
# 64 lines of 64 bytes, as the peers' adapters read and write; and as much as one result may contain.
SMALL, LARGE = ("x" * 63 + "\n") * 64, ("y" * 63 + "\n") * 8192
# A tree to search: this many small files, one line in each of which matches.
FILES = 1000

_numbers = count()


async def seconds(work: Awaitable[ToolResult]) -> float:
    """Time one call, which must succeed."""
    began = time.perf_counter()
    result = await work
    took = time.perf_counter() - began
    if not result.success:
        raise CrabpotError(f"a measured call failed: {result.error or result.stderr}")
    return took


def calling(gateway: Gateway, name: str, tool: str, args: dict[str, Any], session: str = SESSION) -> Entrant:
    """Return an entrant that repeats the same call."""
    return Entrant(name=name, block=one_by_one(lambda: seconds(gateway.call(session, tool, args))))


def opening(gateway: Gateway, name: str) -> Entrant:
    """Return an entrant that makes the first call of a new session, and ends its sandbox afterwards, unmeasured."""

    async def once() -> float:
        session = f"agent:main:open-{next(_numbers)}"
        took = await seconds(gateway.call(session, "exec", command="true"))
        await gateway.execution.fleet.stop((Place.SANDBOX, session))
        return took

    return Entrant(name=name, block=one_by_one(once))


def claiming(gateway: Gateway, name: str, warm: int) -> Entrant:
    """Return an entrant that makes first calls of sessions that get a spare, one by one, once all are ready."""

    async def block(times: int) -> list[float]:
        taken: list[float] = []
        while len(taken) < times:
            async with asyncio.timeout(60):
                while gateway.execution.opener.spares.count() < warm:  # noqa: ASYNC110  nothing tells
                    await asyncio.sleep(0.005)
                # The last opening still has some work to finish.
                await asyncio.sleep(0.02)
            sessions = [f"agent:main:warm-{next(_numbers)}" for _ in range(min(warm, times - len(taken)))]
            taken += [await seconds(gateway.call(session, "exec", command="true")) for session in sessions]
            for session in sessions:
                await gateway.execution.fleet.stop((Place.SANDBOX, session))
        return taken

    return Entrant(name=name, block=block)


async def prepare(gateway: Gateway) -> None:
    """Write the files that are read, changed and searched."""
    for path, content in (("small.txt", SMALL), ("large.txt", LARGE), ("edited.txt", SMALL.replace("x", "a", 1))):
        await seconds(gateway.call(SESSION, "write", path=path, content=content))
    lines = "open(f'tree/{i}.txt', 'w').write(f'a line\\nneedle {i}\\n' * 20)"
    command = f'mkdir -p tree && python3 -c "for i in range({FILES}): {lines}"'
    await seconds(gateway.call(SESSION, "exec", command=command))


def editing(gateway: Gateway, name: str) -> Entrant:
    """Return an entrant that changes one word of a small file, and back."""
    words = ("a", "b")
    turns = count()

    async def once() -> float:
        turn = next(turns)
        old, new = words[turn % 2], words[(turn + 1) % 2]
        return await seconds(gateway.call(SESSION, "edit", path="edited.txt", old=f"{old}xx", new=f"{new}xx"))

    return Entrant(name=name, block=one_by_one(once))


def tools(gateway: Gateway) -> list[Entrant]:
    """Return an entrant for every kind of call, on small files and on large ones."""
    return [
        calling(gateway, "exec", "exec", {"command": "true"}),
        calling(gateway, "read, 4 KiB", "read", {"path": "small.txt"}),
        calling(gateway, "read, 512 KiB", "read", {"path": "large.txt"}),
        calling(gateway, "write, 4 KiB", "write", {"path": "written.txt", "content": SMALL}),
        calling(gateway, "write, 512 KiB", "write", {"path": "written-large.txt", "content": LARGE}),
        editing(gateway, "edit, 4 KiB"),
        calling(gateway, "grep, one file", "grep", {"pattern": "needle 7$", "path": "tree/7.txt"}),
        calling(gateway, f"grep, {FILES} files", "grep", {"pattern": "needle 77$", "path": "tree", "limit": 50}),
        calling(gateway, f"glob, {FILES} files", "glob", {"pattern": "tree/*7.txt", "limit": 50}),
    ]
