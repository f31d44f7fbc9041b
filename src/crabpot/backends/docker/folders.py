"""What this machine says of a folder: who owns it, and which disk it is on."""

from __future__ import annotations

import os

from crabpot.backends.docker.user import Folder
from crabpot.backends.linux.disks import device_of, whole_disk


def owner_of(path: str) -> Folder | None:
    """Return the owner of a folder, or None if there is no such folder."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Folder(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode)


def disk_of(path: str) -> str | None:
    """Return the device of the disk that a folder, or the deepest one above it that exists, lies on."""
    folder = whole_disk(device_of(path))
    return None if folder is None else f"/dev/{os.path.basename(folder)}"
