"""What a sandbox uses now: memory, processes and CPU time of the tree below its first process, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass

from crabpot.runner.exec.proc import STIME, UTIME, stat_of

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
# More than any limit lets a sandbox have; a tree that grows while it is walked must end.
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Memory is what the processes do not share, so that it can be added up."""

    memory_bytes: int
    processes: int
    cpu_s: float


def of(pid: int) -> Usage:
    """Return it; a sandbox that has just ended uses nothing."""
    memory, ticks, waiting, seen = 0, 0, [pid], 0
    while waiting and seen < _MOST:
        one = waiting.pop()
        try:
            pages = _read(f"/proc/{one}/statm").split()
            fields = stat_of(one)
            memory += (int(pages[1]) - int(pages[2])) * _PAGE
            ticks += int(fields[UTIME]) + int(fields[STIME])
            for thread in os.listdir(f"/proc/{one}/task"):
                waiting += map(int, _read(f"/proc/{one}/task/{thread}/children").split())
        except (OSError, IndexError, ValueError):
            continue  # It ended meanwhile.
        seen += 1
    return Usage(memory_bytes=memory, processes=seen, cpu_s=ticks / _TICKS)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
