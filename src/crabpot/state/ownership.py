"""Folders of Crabpot's own: made so that nobody else can change them, and refused where somebody else can."""

from __future__ import annotations

import contextlib
import os
import stat

from crabpot.errors import CrabpotError


def make_own(folder: str, mode: int = 0o700) -> None:
    """Make a folder and what is missing above it, whatever the umask."""
    missing = [folder]
    while not os.path.isdir(above := os.path.dirname(missing[-1])):
        missing.append(above)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)


def take(folder: str) -> None:
    """Make a folder of our own, or check that it is: whoever else may write there could lead our files elsewhere."""
    try:
        make_own(folder)
        facts = os.stat(folder)
    except OSError as error:
        raise CrabpotError(
            f"{error.filename or folder}: {error.strerror}; choose another folder with --state"
        ) from None
    if not stat.S_ISDIR(facts.st_mode):
        raise CrabpotError(f"{folder} is not a folder; choose another with --state")
    if facts.st_uid != os.geteuid():
        raise CrabpotError(f"{folder} belongs to user {facts.st_uid}, not to us; choose another folder with --state")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CrabpotError(
            f"others can write {folder}, and so change what Crabpot keeps there; run `chmod go-w {folder}`"
        )
