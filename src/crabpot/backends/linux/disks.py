"""Which disk a file lies on, as the kernel lists it."""

from __future__ import annotations

import os


def whole_disk(device: int) -> str | None:
    """Give the kernel's folder of the whole disk that a file's device is on, or None where it is on none."""
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not os.path.exists(link):
        return None
    folder = os.path.realpath(link)
    return os.path.dirname(folder) if os.path.exists(f"{folder}/partition") else folder
