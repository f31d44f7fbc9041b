"""A repository's own folder, checked before git works in it: git writes through a link there, wherever it leads."""

from __future__ import annotations

import os
import re

_MOST = 200_000
# git creates these under another name first, so it never writes through what lies there.
_LOOSE = re.compile(rb"objects/[0-9a-f]{2}")


def refusal(folder: bytes) -> str | None:
    """Return why git may not work in it, or None. `folder` is the one that all worktrees of a repository share."""
    todo = [b""]
    count = 0
    while todo:
        below = todo.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as entries:
                for entry in entries:
                    count += 1
                    name = os.path.join(below, entry.name)
                    if entry.is_symlink():
                        return "there is a link in its git folder: %s" % name.decode("utf-8", "replace")
                    if entry.is_dir(follow_symlinks=False) and not _LOOSE.fullmatch(name):
                        todo.append(name)
                    if count > _MOST:
                        return "its git folder holds more than %d files" % _MOST
        except OSError as error:
            return "its git folder cannot be looked at: %s (%s)" % (below.decode("utf-8", "replace"), error.strerror)
    return None
