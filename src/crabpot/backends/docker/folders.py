"""What this machine says of a folder: whose it is, and on which disk it lies."""

from __future__ import annotations

import os

from crabpot.backends.docker.user import Folder
from crabpot.backends.linux.disks import whole_disk


def owner_of(path: str) -> Folder | None:
    """Give whose a folder is, or None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Folder(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode)


def disk_of(path: str) -> str | None:
    """Give the device of the disk that a folder, or the deepest one above it that exists, lies on."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    folder = whole_disk(os.stat(path).st_dev)
    return None if folder is None else f"/dev/{os.path.basename(folder)}"
