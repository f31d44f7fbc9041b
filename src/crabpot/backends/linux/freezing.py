"""Stop all processes of a sandbox without a control group: by signals, until nothing moves."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from crabpot.runner.exec.proc import PARENT, STATE, stat_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_STILL = "TtZX"


class Process(NamedTuple):
    """One process of a sandbox, or of a command on the host."""

    pid: int
    parent: int
    state: str


def begin_stopping(first: int) -> None:
    """Stop what the lists of children name: one may be missing from a list that changes, and `stop` finds it."""
    _signal(_listed(first), signal.SIGSTOP)


def stop(first: int) -> set[str]:
    """Stop the sandbox's first process and all below it; return the states of those that have not stopped yet.

    A stopped process cannot start anything, so a few rounds suffice; an orphan is a child of the first process. The
    parent in a vfork waits uninterruptibly ("D") for a child that is stopped now: it does nothing either, and will
    stop before it does. (What could continue a stopped process without another one that runs, a timer or a message
    that sends SIGCONT, is refused inside by the system call filter.)
    """
    seen = _tasks(first)
    moving = {pid: state for (pid, _), (state, _) in seen.items() if state not in _STILL}
    if not moving and _tasks(first) != seen:
        # Two that wake each other and stop themselves look stopped at every look. Only what has not run between two
        # looks was stopped at one and the same moment.
        moving = {pid: "R" for pid, _ in seen}
    _signal(moving, signal.SIGSTOP)
    return set(moving.values())


def go_on(first: int, *, all_stopped: bool = False) -> None:
    """Continue them, the first one last: it is the runner, and must find its children as they were.

    Where all of them are stopped, the kernel's lists of children are whole, and nobody waits for a look at
    all processes of the machine.
    """
    pids = _listed(first) if all_stopped else [one.pid for one in below(first)]
    _signal(reversed(pids), signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _tasks(first: int) -> dict[tuple[int, str], tuple[str, bytes]]:
    """Return every thread's state, and how often it has run: a process whose first thread ended goes on unseen."""
    found = {}
    for one in below(first):
        folder = f"/proc/{one.pid}/task"
        try:
            threads = os.listdir(folder)
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"{folder}/{thread}/status", "rb") as file:
                    lines = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
            except OSError:
                continue
            ran = lines.get(b"voluntary_ctxt_switches", b"") + lines.get(b"nonvoluntary_ctxt_switches", b"")
            found[one.pid, thread] = lines[b"State"].split()[0].decode(), ran
    return found


def _listed(first: int) -> list[int]:
    """Return a process and its descendants, parents first, by the kernel's own lists; by `below` where it has none."""
    found = [first]
    try:
        for pid in found:
            for thread in _threads(pid):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    found.extend(map(int, file.read().split()))
    except OSError:
        return [one.pid for one in below(first)]
    return found


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def below(first: int) -> list[Process]:
    """Return a process and all its descendants, parents first."""
    children: dict[int, list[Process]] = defaultdict(list)
    found: list[Process] = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (one := _look(int(name))) is not None:
            children[one.parent].append(one)
            if one.pid == first:
                found.append(one)
    for one in found:
        found.extend(children[one.pid])
    return found


def _look(pid: int) -> Process | None:
    fields = stat_of(pid)
    return Process(pid=pid, parent=int(fields[PARENT]), state=fields[STATE].decode()) if fields else None
