"""Which disk a file is on, as the kernel lists it."""

from __future__ import annotations

import os


def device_of(path: str) -> int:
    """Return the device that a folder, or the deepest one above it that exists, lies on."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.stat(path).st_dev


def whole_disk(device: int) -> str | None:
    """Return the kernel's folder of the whole disk of a file's device, or None if it is on none."""
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        return None
    folder = os.path.realpath(link)
    return os.path.dirname(folder) if os.path.exists(f"{folder}/partition") else folder
