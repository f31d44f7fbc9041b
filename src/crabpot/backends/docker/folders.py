"""What this machine says of a folder: who owns it, and which disk it is on."""

from __future__ import annotations

import os

from crabpot.backends.docker.user import Folder
from crabpot.backends.linux.disks import whole_disk


def owner_of(path: str) -> Folder | None:
    """Return the owner of a folder, or None if there is no such folder."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Folder(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode)


def disk_of(path: str) -> str | None:
    """Return the device of the disk of a folder, or of its deepest existing parent."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    folder = whole_disk(os.stat(path).st_dev)
    return None if folder is None else f"/dev/{os.path.basename(folder)}"
