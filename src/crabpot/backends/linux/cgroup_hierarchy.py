"""Where control groups are made on this machine: cgroup v2, through systemd, or cgroup v1."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crabpot.backends.linux.limits import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS = "crabpot"
# A v2 hierarchy without these lies beside v1, and limits nothing.
_NEEDED = {"memory", "pids"}
# Beyond what a limit needs: freezing on v1, and disks where a limit names them.
_EXTRA_1 = ("freezer", "blkio")
_EXTRA_2 = ("io",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """The folder of each controller in which groups are made; with a `scope` systemd makes them, under that mount."""

    version: Literal[1, 2]
    folders: Mapping[str, str]
    swap: bool = True
    scope: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proc:
    """What /proc says of control groups and of this process, as text."""

    mountinfo: str
    membership: str
    root: bool

    @classmethod
    def here(cls) -> Proc:
        """Read both."""
        return cls(
            mountinfo=read("/proc/self/mountinfo"),
            membership=read("/proc/self/cgroup"),
            root=os.geteuid() == 0,
        )


def discover(proc: Proc) -> Hierarchy | None:
    """Return the v2 hierarchy where it has the controllers and is writable, else v1 for root."""
    mounts = _mounts(proc.mountinfo)
    for mount, kind, _ in mounts:
        if kind == "cgroup2":
            delegated = _unified_root(mount) if proc.root else _unified_delegated(mount, proc.membership)
            found = delegated or (None if proc.root else _scope(mount))
            if found is not None:
                return found
    folders = {
        controller: f"{mount}/{_OURS}"
        for mount, kind, options in mounts
        if kind == "cgroup" and proc.root and os.access(mount, os.W_OK)
        for controller in (*CONTROLLERS, *_EXTRA_1)
        if controller in options
    }
    if not any(controller in folders for controller in CONTROLLERS):
        return None
    parent = os.path.dirname(folders.get("memory", ""))
    return Hierarchy(version=1, folders=folders, swap=os.path.exists(f"{parent}/memory.memsw.limit_in_bytes"))


def _unified_root(mount: str) -> Hierarchy | None:
    folder = f"{mount}/{_OURS}"
    if not set(read(f"{mount}/cgroup.controllers").split()) >= _NEEDED:
        return None
    try:
        _enable(mount)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        _enable(folder)
    except OSError:
        return None  # A container's read-only mount, or a group with processes, which can have no children.
    return _unified(folder)


def _unified_delegated(mount: str, membership: str) -> Hierarchy | None:
    """Return the nearest group above this process that we may divide, and that already passes controllers on."""
    path = next((line[3:] for line in membership.splitlines() if line.startswith("0::/")), "")
    while path not in ("", "/"):
        folder = mount + path
        # Moving a process needs write access to the common ancestor of both groups.
        if all(os.access(place, os.W_OK) for place in (folder, f"{folder}/cgroup.procs")):
            found = _unified(folder)
            if found is not None:
                return found
        path = os.path.dirname(path)
    return None


def _scope(mount: str) -> Hierarchy | None:
    """Ask systemd: an ssh login lives in a group of root's, out of which its user can move nothing."""
    available = set(read(f"{mount}/cgroup.controllers").split())
    manager = f"/run/user/{os.geteuid()}/systemd/private"
    command = any(os.access(f"{folder}/systemd-run", os.X_OK) for folder in ("/usr/bin", "/bin"))
    if not (available >= _NEEDED and command and os.path.exists(manager)):
        return None
    return Hierarchy(version=2, folders={name: "" for name in CONTROLLERS if name in available}, scope=mount)


def _unified(folder: str) -> Hierarchy | None:
    passed = set(read(f"{folder}/cgroup.subtree_control").split())
    folders = {name: folder for name in (*CONTROLLERS, *_EXTRA_2) if name in passed}
    return Hierarchy(version=2, folders=folders) if passed >= _NEEDED else None


def _enable(folder: str) -> None:
    available = read(f"{folder}/cgroup.controllers").split()
    for name in (*CONTROLLERS, *_EXTRA_2):
        if name in available:
            write(f"{folder}/cgroup.subtree_control", f"+{name}")


def _mounts(mountinfo: str) -> list[tuple[str, str, set[str]]]:
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind in ("cgroup", "cgroup2"):
            found.append((before.split(" ")[4], kind, set(options.split(" ")[-1].split(","))))
    return found


def read(path: str) -> str:
    """Return a kernel file as text, or "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, value: str) -> None:
    """Write a setting in one piece, as the kernel requires."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)
