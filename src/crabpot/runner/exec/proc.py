"""The process table in /proc, and signals that reach only the process that was meant."""

from __future__ import annotations

import posix

from ..core.signals import signal

# Where a field of /proc/PID/stat stands behind the name.
STATE, PARENT, UTIME, STIME, STARTED = 0, 1, 11, 12, 19


def stat_of(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the name, or none when there is no such process."""
    try:
        fd = posix.open("/proc/%d/stat" % pid, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return []
    try:
        line = posix.read(fd, 1024)
    except OSError:
        return []
    finally:
        posix.close(fd)
    # A process chooses its own name, brackets and spaces included: what follows the last one is the kernel's.
    return line[line.rfind(b")") + 1 :].split()


def parent_of(pid: int) -> int:
    """Return the parent of `pid`, or 0 if there is no such process.

    A leader that ended while its threads go on looks like a zombie, so the state is ignored: what is listed exists.
    """
    fields = stat_of(pid)
    return int(fields[PARENT]) if fields else 0


def parents() -> dict[int, int]:
    """Return every visible process with its parent, newest first, to catch what keeps forking to stay ahead.

    /proc/<pid>/task/<tid>/children would cost less, but many kernels lack it, and it skips entries when processes end.
    """
    pids = sorted((int(name) for name in posix.listdir("/proc") if name.isdigit()), reverse=True)
    found = {pid: parent_of(pid) for pid in pids}
    return {pid: parent for pid, parent in found.items() if parent}


def below(tops: list[int], family: dict[int, int]) -> dict[int, int]:
    """Return `tops` and all their descendants, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in family.items():
        children.setdefault(parent, []).append(pid)
    tree: dict[int, int] = {}
    todo = list(tops)
    for pid in todo:
        if pid not in tree:
            tree[pid] = family[pid]
            todo.extend(children.get(pid, ()))
    return tree


def send(pid: int, parent: int, number: int) -> None:
    """Signal `pid` if it still is a child of `parent` (or ours, by inheritance), never one that reused its pid."""
    fd = -1
    try:
        fd = posix.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (OSError, AttributeError):
        fd = -1  # A kernel before 5.3 or a filter: the race between check and signal remains.
    try:
        # Checked after the descriptor was opened: either this is the process that it holds, or that one is gone and the
        # signal reaches nobody.
        if parent_of(pid) not in (parent, posix.getpid()):
            return
        if fd >= 0:
            signal.pidfd_send_signal(fd, number)
        else:
            posix.kill(pid, number)
    except OSError:
        return  # It ended, or runs with privileges that we may not signal.
    finally:
        if fd >= 0:
            posix.close(fd)
