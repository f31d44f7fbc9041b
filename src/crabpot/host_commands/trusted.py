"""The trusted PATH: find a command's program in folders that no agent could have written."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crabpot.approvals.identity import identify
from crabpot.errors import HostRefused
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.approvals.identity import Identity
    from crabpot.settings import AgentSettings

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def path_of(agent: AgentSettings) -> str:
    """Return the PATH on which an agent's host commands are looked up, and which they get."""
    return agent.tools.elevated.path or TRUSTED_PATH


def find(name: str, path: str, written: Sequence[str]) -> Identity:
    """Return a program by its plain name. `written` lists what sandboxes may write: nothing there is trusted."""
    if not name or "/" in name or "\0" in name:
        raise HostRefused("not_found", f'"{name}" is not the plain name of a program')
    for folder in path.split(":"):
        candidate = f"{folder}/{name}"
        # An empty or relative entry means the working folder, which is the agent's.
        if folder.startswith("/") and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return _trusted(candidate, written)
    raise HostRefused("not_found", f"{name} is not on the trusted path {path} (tools.elevated.path)")


def _trusted(candidate: str, written: Sequence[str]) -> Identity:
    """Check the folder that names the program, and every step of the path that it resolves to."""
    resolved = os.path.realpath(candidate)
    folder = os.path.realpath(os.path.dirname(candidate))
    for tree in written:
        tree_resolved = os.path.realpath(tree)
        if any(os.path.commonpath([tree_resolved, one]) == tree_resolved for one in (folder, resolved)):
            raise HostRefused("denied", f"{candidate} is not trusted: it is in {tree}, which a sandbox may write")
    searched = (folder, os.path.dirname(resolved))
    for path in dict.fromkeys([*_upwards(folder), *_upwards(resolved)]):
        reason = _open_to_others(path, searched=path in searched)
        if reason:
            raise HostRefused("denied", f"{candidate} is not trusted: {path} {reason} (tools.elevated.path)")
    return identify(resolved)


def _upwards(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) or "/" for end in range(len(parts), 0, -1)]


def _open_to_others(path: str, *, searched: bool) -> str | None:
    """Return who else could replace or add a program at this step of its path, or None."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError as error:
        return f"cannot be examined: {error.strerror}"
    if found.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    # Others may add to a sticky folder, but not replace what is in it.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and not searched
    # Root's own group counts as root.
    others = stat.S_IWOTH if found.st_gid == 0 else _OTHERS_WRITE
    return "can be written by others" if found.st_mode & others and not sticky else None
