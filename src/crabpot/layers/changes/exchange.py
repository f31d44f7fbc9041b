"""The renames that the standard library does not offer: one that replaces nothing, and one that swaps two files."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

_NOREPLACE, _EXCHANGE = 1, 2


def move(source: str, source_folder: int, target: str, target_folder: int) -> None:
    """Rename in one step; FileExistsError if the target is there."""
    _rename(source, source_folder, target, target_folder, _NOREPLACE)


def swap(one: str, one_folder: int, other: str, other_folder: int) -> None:
    """Exchange two names in one step; both must be there, and may be of different types."""
    _rename(one, one_folder, other, other_folder, _EXCHANGE)


def swap_paths(one: str, other: str) -> None:
    """Exchange two absolute paths in one step."""
    swap(one, -1, other, -1)


def _rename(source: str, source_folder: int, target: str, target_folder: int, how: int) -> None:
    names = os.fsencode(source), os.fsencode(target)
    _checked(_libc().renameat2(source_folder, names[0], target_folder, names[1], how), target)


def _checked(result: int, name: str | None = None) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
