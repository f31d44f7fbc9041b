"""Write files: a new version replaces the old one in one step or not at all; an append completes or is taken back."""

from __future__ import annotations

import posix
from _stat import S_IMODE, S_ISREG

from ..core.failure import ToolError
from .context import failed, not_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .target import Target

_CREATE = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
_PROBE = posix.O_WRONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC


def temporary_name() -> bytes:
    """Return an unguessable hidden name in the file's own folder: only there is a rename atomic."""
    return b".crabpot-" + posix.urandom(8).hex().encode()


class Replacement:
    """The next version of a file, under a name of its own until publish(). `like` is the file whose mode it takes."""

    __slots__ = ("_fd", "_like", "_temporary", "size", "target")

    def __init__(self, target: Target, like: posix.stat_result | None) -> None:
        self.target = target
        self.size = 0
        self._like = like
        self._temporary: bytes | None = temporary_name()
        self._fd = -1
        try:
            if target.previous is not None and not posix.access(target.name, posix.W_OK, dir_fd=target.folder):
                # A rename would replace even a file that may not be written; opening it says why it may not.
                posix.close(posix.open(target.name, _PROBE, dir_fd=target.folder))
            mode = 0o666 if like is None else 0o600
            self._fd = posix.open(self._temporary, _CREATE, mode, dir_fd=target.folder)
        except OSError as error:
            self._temporary = None
            raise failed(error, target.place) from None

    def write(self, data: bytes) -> None:
        """Add all of `data` to it or, with an error, part of it."""
        try:
            written = posix.write(self._fd, data)
            while written < len(data):
                written += posix.write(self._fd, memoryview(data)[written:])
        except OSError as error:
            raise failed(error, self.target.place) from None
        self.size += len(data)

    def seal(self) -> None:
        """Finish writing, and copy the mode and, where permitted, the owner of `like`."""
        fd, self._fd = self._fd, -1
        try:
            if self._like is not None:
                _copy_mode_and_owner(fd, self._like)
        except OSError as error:
            raise failed(error, self.target.place) from None
        finally:
            posix.close(fd)

    def publish(self) -> None:
        """Replace the file with it."""
        target = self.target
        try:
            if self._temporary is not None:
                posix.rename(self._temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
        except OSError as error:
            raise failed(error, target.place) from None
        self._temporary = None

    def publish_new(self) -> None:
        """Make it the file, unless one of that name appeared."""
        target = self.target
        try:
            if self._temporary is not None:
                posix.link(
                    self._temporary,
                    target.name,
                    src_dir_fd=target.folder,
                    dst_dir_fd=target.folder,
                    follow_symlinks=False,
                )
        except FileExistsError:
            raise ToolError("exists", f"{target.place.shown} exists already") from None
        except OSError:
            # A file system without hard links.
            target.check_unchanged()
            self.publish()
            return
        self.abort()

    def commit(self) -> dict[str, object]:
        """Seal and publish it."""
        self.seal()
        self.publish()
        return {"size": self.size, "created": self.target.previous is None}

    def abort(self) -> None:
        """Remove whatever was not published."""
        if self._fd >= 0:
            posix.close(self._fd)
            self._fd = -1
        if self._temporary is not None:
            try:
                posix.unlink(self._temporary, dir_fd=self.target.folder)
            except OSError:
                pass  # It is gone, or its folder is; the agent owns both.
            self._temporary = None


class Addition:
    """Bytes appended to a file, which is created if it is missing."""

    __slots__ = ("_added", "_fd", "_start", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self._added = 0
        flags = _PROBE | posix.O_APPEND | posix.O_CREAT
        try:
            self._fd = posix.open(target.name, flags, 0o666, dir_fd=target.folder)
        except OSError as error:
            raise failed(error, target.place) from None
        state = posix.fstat(self._fd)
        if not S_ISREG(state.st_mode):
            posix.close(self._fd)
            raise not_regular(state, target.place)
        self._start = state.st_size

    def write(self, data: bytes) -> None:
        """Append `data`; after an error abort() takes back what was written of it."""
        rest = memoryview(data)
        try:
            while rest:
                count = posix.write(self._fd, rest)
                self._added += count
                rest = rest[count:]
        except OSError as error:
            raise failed(error, self.target.place) from None

    def commit(self) -> dict[str, object]:
        """Return the file's size now, and whether this call created it."""
        size = posix.fstat(self._fd).st_size
        posix.close(self._fd)
        self._fd = -1
        return {"size": size, "created": self.target.previous is None}

    def abort(self) -> None:
        """Take back what was appended, unless somebody else has appended to the file too."""
        if self._fd < 0:
            return
        state = posix.fstat(self._fd)
        if state.st_size == self._start + self._added:
            posix.ftruncate(self._fd, self._start)
            if self.target.previous is None:
                self._remove(state)
        posix.close(self._fd)
        self._fd = -1

    def _remove(self, mine: posix.stat_result) -> None:
        try:
            now = self.target.look()
            if now is not None and (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino):
                posix.unlink(self.target.name, dir_fd=self.target.folder)
        except (ToolError, OSError):
            pass  # Something else took its place.


def _copy_mode_and_owner(fd: int, like: posix.stat_result) -> None:
    mode = S_IMODE(like.st_mode)
    mine = posix.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        try:
            posix.fchown(fd, like.st_uid, like.st_gid)
        except OSError:
            mode &= 0o777  # Set-user-id would now mean another user.
    posix.fchmod(fd, mode)
