"""What goes first: the gateway's threads, and what they start for somebody until it runs what an agent asked for."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from crabpot.scheduling.threads import go_first, leave_behind, take_along

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may go before others")


def nice_of(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def in_a_thread(*, first: bool) -> list[int]:
    """Return a child's nice value as it is, when it was taken along, of its own child then, and when left behind."""
    if first:
        go_first()
    command = ["sh", "-c", "read _; cut -d ' ' -f 19 /proc/self/stat; read _"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        seen = [nice_of(child.pid)]
        take_along(child.pid)
        seen.append(nice_of(child.pid))
        print(file=child.stdin, flush=True)
        seen.append(int(child.stdout.readline()))
        leave_behind(child.pid)
        seen.append(nice_of(child.pid))
        print(file=child.stdin, flush=True)
    return seen


@pytest.mark.parametrize(("first", "seen"), [(True, [0, -10, -10, 0]), (False, [0, 0, 0, 0])])
def test_a_child_is_taken_along_only_by_who_goes_first_and_until_it_is_left_behind(first, seen):
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(in_a_thread, first=first).result() == seen
