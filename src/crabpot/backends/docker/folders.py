"""What this machine says of a folder: whose it is, and on which disk it lies."""

from __future__ import annotations

import os

from crabpot.backends.docker.user import Folder


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
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        return None
    folder = os.path.realpath(link)
    if os.path.exists(f"{folder}/partition"):
        folder = os.path.dirname(folder)
    return f"/dev/{os.path.basename(folder)}"
