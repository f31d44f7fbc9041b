"""The group that systemd, or a container's engine, handed over to this gateway: taken, with a leaf for itself."""

from __future__ import annotations

import contextlib
import errno
import os

from crabpot.backends.linux import freezing, owner
from crabpot.backends.linux.kernel_files import read, write
from crabpot.settings import TRUSTED_PATH

# Beside the sandboxes' groups: one that passes controllers on may hold no process itself. Units name it, too.
LEAF = "gateway"
_TRIES, _ASK_S = 20, 20.0
# What systemd itself divides, and nobody else may.
_UNITS = (".service", ".scope", ".slice", ".socket", ".mount", ".swap")


def own_path(membership: str) -> str:
    """Return the path of a process's group in the unified hierarchy, by its /proc/PID/cgroup, or ""."""
    return next((line[3:] for line in membership.splitlines() if line.startswith("0::/")), "")


def take(mount: str, membership: str) -> str | None:
    """Return the folder of the group that was delegated to us, empty of processes, or None if none was."""
    path = own_path(membership)
    folder, above = mount + path, mount + os.path.dirname(path)
    if path in ("", "/"):
        return None
    if _is_delegated(folder):
        return folder if _move_to_leaf(folder) else None
    # Moved already, or put into a subgroup by systemd (DelegateSubgroup=).
    return above if not path.endswith(_UNITS) and _is_delegated(above) else None


def _is_delegated(folder: str) -> bool:
    """Return whether whoever made this group left it to its processes: by systemd's word, or by its owner alone."""
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            return os.getxattr(folder, name) == b"1"
    if f"/user@{os.geteuid()}.service/" in folder and folder.endswith(".service"):
        return _says_delegated(os.path.basename(folder))
    try:
        # Before systemd 251 nothing else says so. The group above is another's, so this is where ours begins.
        mine, above = os.stat(folder).st_uid, os.stat(os.path.dirname(folder)).st_uid
    except OSError:
        return False
    return mine == os.geteuid() != above


def _says_delegated(unit: str) -> bool:
    """Ask a user's own systemd, which puts no mark on a group."""
    import subprocess  # noqa: PLC0415  slow to import, and only for a unit of a user's own

    command = ["systemctl", "--user", "show", "--property=Delegate", "--value", "--", unit]
    environ = {"PATH": TRUSTED_PATH, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}
    try:
        said = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.stdout.strip() == b"yes"


def _move_to_leaf(folder: str) -> bool:
    """Move this process and its family one down; return False where others live here, who may divide it as well."""
    with contextlib.suppress(OSError):
        for _ in range(_TRIES):
            here = [int(pid) for pid in read(f"{folder}/cgroup.procs").split()]
            if not here:
                return True
            if not _family().issuperset(here):
                return False
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{folder}/{LEAF}", 0o755)
            for pid in here:
                _move(pid, f"{folder}/{LEAF}/cgroup.procs")
    return False


def _move(pid: int, to: str) -> None:
    try:
        write(to, str(pid))
    except OSError as error:
        if error.errno != errno.ESRCH:  # It has ended meanwhile.
            raise


def _family() -> set[int]:
    found = {one.pid for one in freezing.below(os.getpid())}
    pid: int | None = os.getpid()
    while pid:
        found.add(pid)
        pid = owner.parent(pid)
    return found
