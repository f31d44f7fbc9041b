"""Stopping all processes of a sandbox without a control group: signals, until nothing moves."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from typing import NamedTuple


class Process(NamedTuple):
    """One of a sandbox, or of a command on the host."""

    pid: int
    parent: int
    state: str


def stop(first: int) -> set[str]:
    """Stop the sandbox's first process and all below it; give the states of those that have not stopped yet.

    What is stopped cannot start anything, so that a few rounds end it; whoever lost its parent is a child of the
    first. The parent in a vfork waits uninterruptibly ("D") for a child that is stopped now: it does nothing
    either, and will stop before it does.
    """
    still = [one for one in below(first) if one.state not in "TtZX"]
    _signal(still, signal.SIGSTOP)
    return {one.state for one in still}


def go_on(first: int) -> None:
    """Continue them, the first one last: it is the runner, and must find its children as they were."""
    _signal(list(reversed(below(first))), signal.SIGCONT)


def _signal(processes: list[Process], number: signal.Signals) -> None:
    for one in processes:
        try:
            os.kill(one.pid, number)
        except ProcessLookupError:
            continue


def below(first: int) -> list[Process]:
    """List a process and all that came from it, parents first."""
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
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return Process(pid=pid, parent=int(parent), state=state.decode())
