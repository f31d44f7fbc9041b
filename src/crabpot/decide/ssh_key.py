"""Check that nobody but the gateway can read the ssh key to the host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.spec.binds import is_under

if TYPE_CHECKING:
    from collections.abc import Sequence


def problem_with_key(key: str, shown: Sequence[str]) -> str | None:
    """Return who but the gateway could read a key, or None; a missing key has no problem yet."""
    try:
        found = os.stat(key)
    except OSError:
        return None
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        return f"is not the gateway's alone: chmod 600 {key}"
    seen = next((tree for tree in shown if is_under(os.path.realpath(key), os.path.realpath(tree))), None)
    return None if seen is None else f"lies in {seen}, which a sandbox sees; move it"
