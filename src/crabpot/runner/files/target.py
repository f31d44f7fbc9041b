"""Where a file lies or will lie: a folder held open and a name in it, which nobody can redirect to another place."""

from __future__ import annotations

import posix
from _stat import S_ISREG

from ..core.failure import ToolError
from .context import READ_ONLY, failed, not_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .context import Context, Location


class Target:
    """A file's folder, its name there, and what is there now.

    Everything acts on the descriptor and the name without following links, so a folder that is swapped for a link
    meanwhile changes nothing.
    """

    __slots__ = ("folder", "name", "place", "previous")

    def __init__(self, ctx: Context, path: str, *, make: bool = False) -> None:
        self.place: Location = ctx.locate(path)
        if path.endswith(("/", "/.")):
            raise ToolError("is_directory", f"{self.place.shown} names a folder, not a file")
        try:
            self.folder, self.name = ctx.opener.open_parent(self.place.anchor, self.place.relative, make=make)
        except OSError as error:
            raise failed(error, self.place) from None
        try:
            self.previous = self.look()
        except ToolError:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder; calling it again is harmless."""
        if self.folder >= 0:
            posix.close(self.folder)
            self.folder = -1

    def look(self) -> posix.stat_result | None:
        """Return the state of the regular file that is there now, None if there is none."""
        try:
            state = posix.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failed(error, self.place) from None
        if not S_ISREG(state.st_mode):
            raise not_regular(state, self.place)
        return state

    def read(self, limit: int) -> bytes:
        """Return the whole file, at most `limit` bytes of it; `previous` becomes the state of what was read."""
        pieces: list[bytes] = []
        try:
            fd = posix.open(self.name, READ_ONLY | posix.O_NOFOLLOW, dir_fd=self.folder)
            try:
                self.previous = posix.fstat(fd)
                if not S_ISREG(self.previous.st_mode):
                    raise not_regular(self.previous, self.place)
                left = limit + 1
                while left > 0:
                    piece = posix.read(fd, min(left, self.previous.st_size + 1))
                    if not piece:
                        return b"".join(pieces)
                    pieces.append(piece)
                    left -= len(piece)
                raise ToolError("invalid_arguments", f"{self.place.shown} is larger than {limit >> 20} MiB; use exec")
            finally:
                posix.close(fd)
        except OSError as error:
            raise failed(error, self.place) from None

    def check_unchanged(self) -> None:
        """Raise `conflict` if the file is not the one that was read."""
        now = self.look()
        before = self.previous
        if _identity(before) != _identity(now):
            raise ToolError("conflict", f"{self.place.shown} was changed by somebody else meanwhile; read it again")


def _identity(state: posix.stat_result | None) -> tuple[int, ...]:
    if state is None:
        return ()
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
