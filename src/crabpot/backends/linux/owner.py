"""Labels that say which process made a thing, so that what a killed gateway left behind is recognised."""

from __future__ import annotations

import os
import re
from functools import cache

from crabpot.errors import SandboxUnavailable
from crabpot.runner.exec.proc import STARTED, parent_of, stat_of

_LABEL = re.compile(r"crabpot-([0-9]{1,10})-([0-9]{1,20})-.*", re.ASCII | re.DOTALL)


def label(suffix: str) -> str:
    """Return a label of this process. Its start time tells it from a later process with the same pid."""
    return f"crabpot-{os.getpid()}-{_since(os.getpid())}-{suffix}"


@cache
def _since(own: int) -> int | None:
    return started(own)


def is_label(name: str) -> bool:
    """Return whether this is such a label."""
    return _LABEL.fullmatch(name) is not None


def is_alive(name: str) -> bool:
    """Return whether the process that made it still runs; what is not a label counts as alive, and is left alone."""
    match = _LABEL.fullmatch(name)
    return match is None or started(int(match[1])) == int(match[2])


def started(pid: int) -> int | None:
    """Return a process's start time, in ticks since boot, or None if it is gone."""
    fields = stat_of(pid)
    return int(fields[STARTED]) if fields else None


def parent(pid: int) -> int | None:
    """Return a process's parent, or None if it is gone."""
    return parent_of(pid) or None


@cache
def boot() -> str:
    """Return the id of this boot: numbers and start times of processes come again with the next one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        raise SandboxUnavailable(
            "/proc/sys is hidden from Crabpot, as ProcSubset= of a unit does: remove ProcSubset= from it; "
            "`crabpot render systemd` prints units that work"
        ) from None
