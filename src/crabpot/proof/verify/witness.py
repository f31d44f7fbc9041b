"""What the host sees of a sandbox from outside, where nothing inside can lie about it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_AGAIN_S = 0.02


def processes_with(marker: str) -> list[int]:
    """Return the processes of this machine that have a word in their command line, whatever namespace they are in."""
    wanted = marker.encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                if wanted in stream.read():
                    found.append(int(name))
        except OSError:
            continue  # It ended meanwhile.
    return found


def status(pid: int) -> dict[str, str]:
    """Return a process's status as the host has it: ids are the host's."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
        return dict(line.rstrip("\n").split(":\t", 1) for line in stream if ":\t" in line)


def memory_bytes() -> int:
    """Return how much memory this very process, the gateway's, has in use."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_memory_bytes() -> int:
    """Return how much memory the machine could still give."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        fields = dict(line.split(":", 1) for line in stream)
    return int(fields["MemAvailable"].split()[0]) * 1024


async def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until something holds, but not longer."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_AGAIN_S)
    return True
