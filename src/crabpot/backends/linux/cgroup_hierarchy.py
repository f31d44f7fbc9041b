"""Where control groups are made on this machine: cgroup v2, through systemd, or cgroup v1."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Literal

from crabpot.backends.linux import cgroup_delegation
from crabpot.backends.linux.kernel_files import read, write
from crabpot.backends.linux.limits import CONTROLLERS
from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = "crabpot"
# A v2 hierarchy without these lies beside v1, and limits nothing.
_NEEDED = {"memory", "pids"}
# Beyond what a limit needs: freezing on v1, and disks where a limit names them.
_EXTRA_1 = ("freezer", "blkio")
_EXTRA_2 = ("io",)
_ASK_S = 5.0


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
    """Return the v2 hierarchy where it has the controllers and is ours to divide, else v1 for root."""
    mounts = _mounts(proc.mountinfo)
    for mount, kind, _ in mounts:
        found = _unified(mount, proc) if kind == "cgroup2" else None
        if found is not None:
            return found
    folders = {
        controller: f"{mount}/{OURS}"
        for mount, kind, options in mounts
        if kind == "cgroup" and proc.root and os.access(mount, os.W_OK)
        for controller in (*CONTROLLERS, *_EXTRA_1)
        if controller in options
    }
    if not any(controller in folders for controller in CONTROLLERS):
        return None
    parent = os.path.dirname(folders.get("memory", ""))
    return Hierarchy(version=1, folders=folders, swap=os.path.exists(f"{parent}/memory.memsw.limit_in_bytes"))


def _unified(mount: str, proc: Proc) -> Hierarchy | None:
    """Prefer our own unit's group, and leave what systemd divides to systemd."""
    unit = cgroup_delegation.take(mount, proc.membership)
    found = None if unit is None else _divided(unit, unit)
    if found is None and proc.root:
        return _divided(mount, f"{mount}/{OURS}")
    return found or _scope(mount) or _passed_on(mount, proc.membership)


def _divided(folder: str, parent: str) -> Hierarchy | None:
    """Let a group pass controllers on; sandboxes' groups will be made in `parent`."""
    try:
        # A container's is mounted read-only; one that holds processes cannot have children with controllers.
        return _passing(folder, parent) if enable(folder) and os.access(folder, os.W_OK) else None
    except OSError:
        return None


def _scope(mount: str) -> Hierarchy | None:
    """Ask systemd: an ssh login lives in a group of root's, out of which its user can move nothing."""
    command = any(os.access(f"{folder}/systemd-run", os.X_OK) for folder in ("/usr/bin", "/bin"))
    manager = _manager() if command else None
    if manager is None:
        return None
    # What the root has says nothing about a user: systemd hands down what user@.service lists.
    available = set(read(f"{mount}{manager}/cgroup.controllers").split())
    if not available >= _NEEDED:
        return None
    return Hierarchy(version=2, folders={name: "" for name in CONTROLLERS if name in available}, scope=mount)


def _manager() -> str | None:
    """Return the group of the user's own systemd, by the process behind its socket, or None if it does not run."""
    import socket  # noqa: PLC0415  only a user without a unit of their own gets here

    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_ASK_S)
        try:
            asking.connect(f"/run/user/{os.geteuid()}/systemd/private")
            peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4)
        except OSError:
            return None
    path = cgroup_delegation.own_path(read(f"/proc/{int.from_bytes(peer, sys.byteorder)}/cgroup"))
    return os.path.dirname(path) if path else None


def _passed_on(mount: str, membership: str) -> Hierarchy | None:
    """Return the nearest group above this process that we may divide, and that already passes controllers on."""
    path = cgroup_delegation.own_path(membership)
    while path not in ("", "/"):
        folder = mount + path
        # Moving a process needs write access to the common ancestor of both groups.
        if all(os.access(place, os.W_OK) for place in (folder, f"{folder}/cgroup.procs")):
            found = _passing(folder, folder)
            if found is not None:
                return found
        path = os.path.dirname(path)
    return None


def _passing(folder: str, parent: str) -> Hierarchy | None:
    passed = set(read(f"{folder}/cgroup.subtree_control").split())
    folders = {name: parent for name in (*CONTROLLERS, *_EXTRA_2) if name in passed}
    return Hierarchy(version=2, folders=folders) if passed >= _NEEDED else None


def enable(folder: str) -> bool:
    """Have a group of v2 pass on every controller that it has; return whether those that matter are among them."""
    passed = set(read(f"{folder}/cgroup.subtree_control").split())
    available = read(f"{folder}/cgroup.controllers").split()
    for name in (*CONTROLLERS, *_EXTRA_2):
        if name in available and name not in passed:
            # Processes with a real-time policy keep the cpu controller from being passed on; the rest is still of use.
            with contextlib.suppress(OSError) if name not in _NEEDED else contextlib.nullcontext():
                write(f"{folder}/cgroup.subtree_control", f"+{name}")
    return set(available) >= _NEEDED


def _mounts(mountinfo: str) -> list[tuple[str, str, set[str]]]:
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind in ("cgroup", "cgroup2"):
            found.append((before.split(" ")[4], kind, set(options.split(" ")[-1].split(","))))
    return found
