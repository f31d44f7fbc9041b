"""The folders that a runner on a socket lets its clients reach, and whether a path leads out of them."""

from __future__ import annotations

import os
import posix

from ..core.failure import ToolError

_PROC = b"/proc"
_LONGEST = 4095
# Resolving looks at every folder on the way: one request may not keep the runner busy with that.
_MOST_LOOKS = 1000


class Roots:
    """Folders by their real paths. A path belongs to them by where it leads, whatever it is called."""

    def __init__(self, folders: list[bytes]) -> None:
        self.folders = tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))
        self._looks = 0

    def begin(self) -> None:
        """Reset the budget of lookups for another request."""
        self._looks = 0

    def holds(self, resolved: bytes) -> bool:
        """Return whether a path without links is one of the folders, or below one."""
        return any(resolved == folder or resolved.startswith(folder + b"/") for folder in self.folders)

    def resolve(self, path: bytes, folder: bytes, *, follow: bool = True) -> bytes:
        """Return where `path` leads from `folder`, or raise `outside`; a missing path counts by what is above it.

        With `follow` false a link at its end counts as itself: removing or renaming one touches nothing else.
        """
        whole = os.path.join(folder, path)
        self._looks += 1
        if len(whole) > _LONGEST:
            raise ToolError("invalid_arguments", "an argument is longer than a path can be (%d bytes)" % _LONGEST)
        if self._looks > _MOST_LOOKS:
            raise ToolError(
                "invalid_arguments", "more than %d paths, or what could be paths, in a request" % _MOST_LOOKS
            )
        name = whole.rpartition(b"/")[2]
        if follow or name in (b"", b".", b".."):
            resolved = os.path.realpath(whole)
        else:
            resolved = os.path.join(os.path.realpath(os.path.dirname(whole)), name)
        if not self.holds(resolved):
            shown = path.decode("utf-8", "replace")
            inside = ", ".join(root.decode("utf-8", "replace") for root in self.folders)
            raise ToolError("outside", "%s leads out of %s" % (shown, inside))
        return resolved

    def is_root(self, resolved: bytes) -> bool:
        """Return whether this is one of the folders itself, which nobody may remove or move."""
        return resolved in self.folders


def check_folder(path: bytes) -> str | None:
    """Return why a folder cannot be a root, or None."""
    try:
        resolved = os.path.realpath(path)
        posix.close(posix.open(resolved, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC))
    except OSError as error:
        return "%s (make it first: mkdir -p)" % error.strerror
    if resolved == b"/":
        return "is the whole machine: name the folder that is meant"
    if resolved == _PROC or resolved.startswith(_PROC + b"/"):
        return "is the kernel's, not a folder of files"
    return None
