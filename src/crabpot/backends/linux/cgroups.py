"""The control group of one sandbox: made with its limits set, joined, read, frozen and removed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from typing import TYPE_CHECKING

from crabpot.backends.linux import cgroup_delegation, owner
from crabpot.backends.linux.cgroup_hierarchy import OURS, enable
from crabpot.backends.linux.disks import whole_disk
from crabpot.backends.linux.kernel_files import read, write
from crabpot.backends.linux.limits import SHARES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.backends.linux.cgroup_hierarchy import Hierarchy
    from crabpot.backends.linux.limits import Setting

_TRIES = 20
# Below this the groups of one agent's sandboxes lie, where CPU time is divided.
_AGENT = "agent-"


class Cgroup:
    """The group of one sandbox, in as many folders as there are hierarchies."""

    def __init__(self, hierarchy: Hierarchy, folders: Mapping[str, str]) -> None:
        self._version = hierarchy.version
        self._systemds = hierarchy.scope is not None
        self._folders = folders

    @classmethod
    def make(cls, hierarchy: Hierarchy, label: str, settings: Iterable[Setting], *, agent: str = "") -> Cgroup:
        """Make it, with its limits set before anything is in it. OSError leaves nothing behind.

        CPU time is divided between agents first: one that opens forty sandboxes gets no more of it than one that opens
        one, and its weight counts against the other agents. (In cgroup v2 each step on the way would need controllers
        of its own; there it is not divided.)
        """
        wanted = list(settings)
        used = {"freezer", *(one.controller for one in wanted)}
        folders = {name: f"{path}/{label}" for name, path in hierarchy.folders.items() if name in used}
        if hierarchy.version == 1 and "cpu" in folders:
            digest = hashlib.sha256(agent.encode("utf-8", "surrogatepass")).hexdigest()
            folders["cpu"] = f"{hierarchy.folders['cpu']}/{_AGENT}{digest[:16]}/{label}"
        group = cls(hierarchy, folders)
        try:
            for folder in dict.fromkeys(group._folders.values()):
                _make(folder, passing=hierarchy.version != 1)
            for one in wanted:
                if one.controller in group._folders:
                    group._set(one)
                    if one.file == SHARES and hierarchy.version == 1:
                        write(f"{os.path.dirname(group._folders['cpu'])}/{SHARES}", one.value)
        except OSError:
            group.remove()
            raise
        return group

    @classmethod
    def of(cls, hierarchy: Hierarchy, pid: int, label: str) -> Cgroup:
        """Return the group that systemd made, by a process that is in it; OSError if it lacks what was promised."""
        path = cgroup_delegation.own_path(read(f"/proc/{pid}/cgroup"))
        folder = f"{hierarchy.scope}{path}"
        has = read(f"{folder}/cgroup.controllers").split()
        lacking = [name for name in hierarchy.folders if name not in has]
        if os.path.basename(path) != f"{label}.scope" or lacking:
            raise OSError(
                f"systemd gave it the group {path or '/'}, without {', '.join(lacking) or 'a scope of its own'}"
            )
        return cls(hierarchy, dict.fromkeys(hierarchy.folders, folder))

    def _set(self, one: Setting) -> None:
        path = f"{self._folders[one.controller]}/{one.file}"
        if not one.optional or os.path.exists(path):
            write(path, one.value)

    def join_fds(self) -> Iterator[int]:
        """Open what a process writes itself into, one by one; the caller closes them."""
        # `tasks` moves one thread, which saves the kernel a lock that makes a rare mover wait 10 ms.
        name = "tasks" if self._version == 1 else "cgroup.procs"
        for folder in dict.fromkeys(self._folders.values()):
            yield os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)

    def hits(self) -> dict[str, int]:
        """Return how often a limit was hit: processes killed for memory, and those that could not start."""
        memory = "memory.oom_control" if self._version == 1 else "memory.events"
        found = {
            "memory": self._count("memory", memory, "oom_kill"),
            "pids": self._count("pids", "pids.events", "max"),
        }
        return {name: count for name, count in found.items() if count}

    def _count(self, controller: str, file: str, key: str) -> int:
        for line in read(f"{self._folders.get(controller, '')}/{file}").splitlines():
            name, _, count = line.partition(" ")
            if name == key and count.isdigit():
                return int(count)
        return 0

    def set_frozen(self, *, frozen: bool) -> bool:
        """Freeze or thaw all of it at once; return False where this machine's groups cannot."""
        folder = self._folders.get("freezer" if self._version == 1 else "memory")
        if folder is None:
            return False
        file, words = ("freezer.state", ("THAWED", "FROZEN")) if self._version == 1 else ("cgroup.freeze", ("0", "1"))
        try:
            write(f"{folder}/{file}", words[frozen])
        except OSError as error:
            # A unit with ProtectControlGroups= sees them read-only.
            if error.errno == errno.EROFS:
                return False
            # systemd removes a scope with its last process: nothing is left that could move.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
        return True

    def is_frozen(self) -> bool:
        """Return whether the last process has stopped, or is gone."""
        if self._version == 1:
            return read(f"{self._folders['freezer']}/freezer.state").strip() in ("FROZEN", "")
        said = read(f"{self._folders['memory']}/cgroup.events").splitlines()
        return not said or "frozen 1" in said or "populated 0" in said

    def remove(self) -> bool:
        """Remove it; return False while a process is still in it. systemd removes a scope's."""
        if self._systemds:
            return True
        folders = list(dict.fromkeys(self._folders.values()))
        left = [folder for folder in folders if not _remove(folder)]
        # With the last of them their parent folders go; each refuses while it contains another.
        for folder in folders:
            _remove_empty(os.path.dirname(folder))
        return not left


def _remove_empty(folder: str) -> None:
    if os.path.basename(folder).startswith(_AGENT):
        _remove(folder)
        folder = os.path.dirname(folder)
    # Not a unit's own group, which is systemd's.
    if os.path.basename(folder) == OURS:
        _remove(folder)


def reap(hierarchy: Hierarchy) -> None:
    """Remove the groups of gateways that died without doing so; one that has processes refuses, and stays."""
    for folder in dict.fromkeys(hierarchy.folders.values()):
        try:
            names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        for name in names:
            if owner.is_label(name) and not owner.is_alive(name):
                _thaw(f"{folder}/{name}")
                _remove(f"{folder}/{name}")
            elif name.startswith(_AGENT):
                _reap_below(f"{folder}/{name}")


def _thaw(folder: str) -> None:
    """Let what a dead gateway had frozen come to its end, which even SIGKILL waits for in the first version."""
    for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with contextlib.suppress(OSError):
            write(f"{folder}/{name}", value)


def _reap_below(folder: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if owner.is_label(name) and not owner.is_alive(name):
                _remove(f"{folder}/{name}")
    _remove(folder)


def disk_of(device: int) -> str | None:
    """Return the major:minor of the whole disk of a file's device, or None where none can be limited."""
    folder = whole_disk(device)
    return None if folder is None else read(f"{folder}/dev").strip() or None


def _make(folder: str, *, passing: bool) -> None:
    """Make a group; in v2, below one that passes its controllers on."""
    above = os.path.dirname(folder)
    for _ in range(_TRIES):
        # The last group of another gateway may take the parent folders with it at any moment.
        with contextlib.suppress(FileNotFoundError):
            if passing and os.path.basename(above) == OURS:
                os.makedirs(above, 0o755, exist_ok=True)
                enable(above)
            os.mkdir(folder, 0o755)
            return
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(above, 0o755, exist_ok=True)
    raise FileNotFoundError(f"{above} keeps being removed")


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
