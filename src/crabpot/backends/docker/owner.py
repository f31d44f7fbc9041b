"""Labels that say which gateway made a container, so that what a dead one left is known, and nothing else is."""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache

OWNER, SCOPE, HASH, STATE = "crabpot.owner", "crabpot.scope", "crabpot.hash", "crabpot.state"

_OWNER = re.compile(r"([0-9]{1,10}):([0-9]{1,20}):([0-9a-f-]{1,64})", re.ASCII)


def own() -> str:
    """Name this process: its number, its start time (numbers come again) and the boot (start times come again)."""
    return f"{os.getpid()}:{_started(os.getpid())}:{_boot()}"


def is_alive(label: str) -> bool:
    """Tell whether the process of a label still runs; what is no label of ours counts as alive, and is left alone."""
    match = _OWNER.fullmatch(label)
    if match is None:
        return True
    return match[3] == _boot() and _started(int(match[1])) == int(match[2])


def process_of(label: str) -> str:
    """Give the number of the process, for a message."""
    return label.partition(":")[0]


def state_label(state: str) -> str:
    """Name a state folder: gateways over different ones do not know, and so do not judge, each other's containers."""
    return hashlib.sha256(os.path.realpath(state).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _started(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything, parentheses included.
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return None


@cache
def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
