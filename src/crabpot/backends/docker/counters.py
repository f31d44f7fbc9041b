"""What the kernel counts for a container: processes killed for memory, and processes that could not start."""

from __future__ import annotations

import os

# Controller, file of cgroup v1, file of cgroup v2, name of the count in both.
_COUNTS = (
    ("memory", "memory.oom_control", "memory.events", "oom_kill"),
    ("pids", "pids.events", "pids.events", "max"),
)


class Counters:
    """Counts by limit, read straight from the cgroup: an engine reports them late, or not at all."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._files = dict(_files(_read(f"/proc/{pid}/cgroup"), _read("/proc/self/mountinfo")))
        self._seen = self.read()

    def read(self) -> dict[str, int]:
        """Return the current counts; a cgroup that is gone, or hidden from this process, counts nothing."""
        found = {}
        for name, (path, key) in self._files.items():
            for line in _read(path).splitlines():
                word, _, count = line.partition(" ")
                if word == key and count.isdigit():
                    found[name] = int(count)
        return found

    @property
    def gone(self) -> bool:
        """Return whether there was something to read and no longer is: the container died."""
        return bool(self._files) and not any(os.path.exists(path) for path, _ in self._files.values())

    def new(self) -> set[str]:
        """Return the limits that were hit since the last call."""
        now = self.read()
        hit = {name for name, count in now.items() if count > self._seen.get(name, 0)}
        self._seen |= now
        return hit


def _files(membership: str, mountinfo: str) -> list[tuple[str, tuple[str, str]]]:
    mounts = group_mounts(mountinfo)
    found = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for name, older, newer, key in _COUNTS:
            if controllers and name not in controllers.split(","):
                continue
            for root, place, kind, options in mounts:
                fits = kind == "cgroup" and name in options if controllers else kind == "cgroup2"
                below = path.removeprefix(root.rstrip("/"))
                file = f"{place}{below}/{older if controllers else newer}"
                if fits and os.path.exists(file):
                    found.append((name, (file, key)))
    return found


def group_mounts(mountinfo: str) -> list[tuple[str, str, str, list[str]]]:
    """Return root, mount point, type and options of each cgroup mount."""
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if kinds and kinds[0].startswith("cgroup"):
            found.append((fields[3], fields[4], kinds[0], kinds[-1].split(",")))
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1024**2)
    except OSError:
        return ""
