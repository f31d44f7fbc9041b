"""Whether there is room to make an image: memory, and disk where it is made and where the engine keeps it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.backends.linux.limits import amount
from crabpot.settings import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.images.recipe import Recipe

# What dpkg and the engine's export need, whatever the image; and the share of a large one that they hold besides.
_MEMORY = 512 * MIB
_MEMORY_SHARE = 0.4
_DISK = GIB // 4


def problems(recipe: Recipe, folders: dict[str, float]) -> Iterator[str]:
    """Yield what is short. `folders` are those that will be written to, each with how many times the image's size."""
    needed = int(_MEMORY + _MEMORY_SHARE * recipe.size_bytes)
    available = memory_available()
    if available is not None and available < needed:
        yield f"memory: {amount(available)} are available, and about {amount(needed)} are needed"
    for folder, times in folders.items():
        needed = int(_DISK + times * recipe.size_bytes)
        free = disk_free(folder)
        if free is not None and free < needed:
            yield f"disk: {amount(free)} are free in {folder}, and about {amount(needed)} are needed"


def memory_available() -> int | None:
    """Return what programs may still take, in bytes, as the kernel estimates it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def disk_free(folder: str) -> int | None:
    """Return what this user may still write in a folder, or in its deepest existing parent."""
    while not os.path.exists(folder) and folder != "/":
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
