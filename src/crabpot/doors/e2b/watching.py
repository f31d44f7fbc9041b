"""What happens in a folder, as a program inside sees it."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crabpot.doors.e2b.lines import Lines
from crabpot.doors.e2b.refusals import RpcError, failure_of
from crabpot.doors.inflight import Sign
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes

    # None says that the watch has begun.
    Tell = Callable[[dict[str, str] | None], Awaitable[None]]

_MOST, _MOST_EVENTS = 32, 10_000
_LONGEST_LINE = 64 * 1024
_TYPES = frozenset({"CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"})


async def watching(  # noqa: PLR0913  what to watch, and for whom
    sandboxes: Sandboxes, sandbox: Sandbox, path: str, *, recursive: bool, tell: Tell, gone: Sign
) -> None:
    """Report what happens in a folder until the sandbox ends or nobody wants to know."""
    program = files("crabpot.doors.e2b.inside").joinpath("watch.py").read_text()
    lines, refused = Lines(_LONGEST_LINE), ""

    async def take(stream: str, data: bytes) -> None:
        nonlocal refused
        for line in lines.take(data) if stream == "stdout" else ():
            if "error" in line:
                refused = str(line["error"])[:200]
            elif "ready" in line:
                await tell(None)
            elif _counts(line):
                await tell({"name": line["name"], "type": f"EVENT_TYPE_{line['type']}"})

    args = {
        "command": ["python3", "-I", "-S", "-c", program, path, "1" if recursive else "0"],
        "timeout": sandboxes.agent(sandbox).sandbox.limits.time_ceiling,
    }
    result = await sandboxes.call(sandbox, "exec", args, gone=gone, streams=Streams(sink=take, paced=True))
    if refused:
        raise RpcError("not_found" if "No such" in refused else "invalid_argument", f"{path[:200]!a}: {refused}")
    if (failure := failure_of(result)) is not None:
        raise failure


def _counts(line: dict[str, Any]) -> bool:
    """Return whether it is an event, and not of a file that a write has not finished yet."""
    name = line.get("name")
    return isinstance(name, str) and line.get("type") in _TYPES and not name.rpartition("/")[2].startswith(".crabpot-")


class Watchers:
    """The watches of one sandbox whose events are fetched."""

    def __init__(self, sandboxes: Sandboxes, sandbox: Sandbox) -> None:
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self._all: dict[str, tuple[Sign, deque[dict[str, str]]]] = {}
        sandbox.closers.append(self.close)

    async def add(self, path: str, *, recursive: bool) -> str:
        """Begin a watch, and return its id once it has begun."""
        if len(self._all) >= _MOST:
            raise RpcError("resource_exhausted", f"more than {_MOST} watchers; remove some")
        identity = secrets.token_hex(8)
        gone, begun = Sign(), asyncio.Event()
        # Whoever does not fetch them loses the oldest.
        events: deque[dict[str, str]] = deque(maxlen=_MOST_EVENTS)

        async def tell(event: dict[str, str] | None) -> None:
            if event is None:
                begun.set()
            else:
                events.append(event)

        self._all[identity] = gone, events
        work = watching(self._sandboxes, self._sandbox, path, recursive=recursive, tell=tell, gone=gone)
        task = self._sandboxes.context.calls.start(work)
        starting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait({task, starting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            starting.cancel()
        if not begun.is_set():
            self._all.pop(identity, None)
            task.result()
            raise RpcError("internal", "the watch ended at once")
        return identity

    def _found(self, identity: str) -> tuple[Sign, deque[dict[str, str]]]:
        if identity not in self._all:
            raise RpcError("not_found", f"there is no watcher {identity[:64]!a}")
        return self._all[identity]

    def events(self, identity: str) -> list[dict[str, Any]]:
        """Return what happened since the last time."""
        _, events = self._found(identity)
        found = list(events)
        events.clear()
        return list(found)

    def remove(self, identity: str) -> None:
        """End a watch."""
        self._found(identity)[0].set()
        del self._all[identity]

    def close(self) -> None:
        """End them all."""
        for gone, _ in self._all.values():
            gone.set()
