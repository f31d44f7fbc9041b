"""Open what lies below a held-open folder so that no link leads out of it, however fast anything is swapped.

The kernel does it in one step (openat2, Linux 5.6). Where it cannot, or a filter forbids it, `_Walk` takes the same
path folder by folder. Refusals are the kernel's: EXDEV for a path that leads out and for a magic link of procfs.
"""

from __future__ import annotations

import errno
import posix
from _stat import S_ISDIR, S_ISLNK

from .openat2 import BENEATH, NO_MAGICLINKS, NO_SYMLINKS, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .openat2 import Openat2

_PATH_MAX = 4095
_MAX_LINKS = 40  # the kernel's own limit
_FOLDER = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC


class Anchor:
    """A folder held open. Confined: nothing outside is reachable. Otherwise it is / and refuses only magic links."""

    __slots__ = ("confined", "fd", "parts", "path", "prefix", "resolve")

    def __init__(self, path: bytes, fd: int, *, confined: bool) -> None:
        self.path = path
        self.fd = fd
        self.confined = confined
        self.prefix = path.rstrip(b"/") + b"/"
        self.resolve = BENEATH | NO_MAGICLINKS if confined else NO_MAGICLINKS
        self.parts = [part for part in path.split(b"/") if part]


class Opener:
    """Opens below anchors, by openat2 unless it is missing or `kernel` is false."""

    __slots__ = ("_call", "_tried")

    def __init__(self, *, kernel: bool = True) -> None:
        self._call: Openat2 | None = None
        self._tried = not kernel

    def open(self, anchor: Anchor, relative: bytes, flags: int, *, follow: bool = True) -> int:
        """Return a descriptor of `relative`, which has no `..`; with `follow` false any link on the way is ELOOP."""
        flags |= posix.O_CLOEXEC
        if not relative:
            return posix.open(b".", flags, dir_fd=anchor.fd)
        if len(relative) > _PATH_MAX:
            raise OSError(errno.ENAMETOOLONG, "path too long")
        call = self._kernel()
        if call is not None:
            resolve = anchor.resolve if follow else anchor.resolve | NO_SYMLINKS
            fd = call(anchor.fd, relative, flags, resolve)
            if fd >= 0:
                return fd
            # EXDEV: perhaps an absolute link back into the same folder. ELOOP: a magic link, or too many ordinary ones.
            # EAGAIN: a rename was under way while `..` was looked up. The walk settles all three.
            if not follow or -fd not in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
                raise OSError(-fd, posix.strerror(-fd))
        walk = _Walk(anchor, relative, follow=follow)
        try:
            return walk.open(flags)
        finally:
            walk.close()

    def below(self, anchor: Anchor, flags: int) -> Callable[[bytes], int]:
        """Return what opens one path after the other below an anchor, as `open` does without following links."""
        call, folder = self._kernel(), anchor.fd
        if call is None:
            return lambda path: self.open(anchor, path, flags, follow=False)
        flags, resolve = flags | posix.O_CLOEXEC, anchor.resolve | NO_SYMLINKS

        def opened(path: bytes) -> int:
            fd = call(folder, path, flags, resolve)
            if fd < 0:
                raise OSError(-fd, posix.strerror(-fd))
            return fd

        return opened

    def _kernel(self) -> Openat2 | None:
        if not self._tried:
            self._tried = True
            self._call = load()
        return self._call

    def open_parent(self, anchor: Anchor, relative: bytes, *, make: bool = False) -> tuple[int, bytes]:
        """Return the folder in which `relative` really lies, links followed, and its name there; it need not exist.

        With `make` missing folders on the way are created. The name was no link a moment ago; what acts on it must not
        follow one, and by the descriptor it cannot leave the folder.
        """
        if not relative:
            raise OSError(errno.EISDIR, "a folder")
        head, _, name = relative.rpartition(b"/")
        try:
            fd = self.open(anchor, head, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
        else:
            keep = False
            try:
                keep = _link_target(name, fd) is None
            finally:
                if not keep:
                    posix.close(fd)
            if keep:
                return fd, name
        walk = _Walk(anchor, relative, make=make)
        try:
            name = walk.settle()
            if name == b".":
                raise OSError(errno.EISDIR, "a folder")
            return posix.open(b".", _FOLDER, dir_fd=walk.folder), name
        finally:
            walk.close()


class _Walk:
    """One path walked folder by folder, each held open, so that `..` of a link goes back the way it came."""

    __slots__ = ("_anchor", "_follow", "_held", "_links", "_make", "_pending")

    def __init__(self, anchor: Anchor, relative: bytes, *, follow: bool = True, make: bool = False) -> None:
        self._anchor = anchor
        self._follow = follow
        self._make = make
        self._held: list[int] = []
        self._links = 0
        self._pending = relative.split(b"/")[::-1]

    @property
    def folder(self) -> int:
        return self._held[-1] if self._held else self._anchor.fd

    def close(self) -> None:
        while self._held:
            posix.close(self._held.pop())

    def open(self, flags: int) -> int:
        for _ in range(_MAX_LINKS):
            name = self.settle()
            try:
                fd = posix.open(name, flags | posix.O_NOFOLLOW, dir_fd=self.folder)
            except OSError as error:
                # ELOOP: a link took the place of something that was none just before; with O_DIRECTORY that is ENOTDIR.
                if error.errno != errno.ELOOP and not (error.errno == errno.ENOTDIR and self._was_swapped(name)):
                    raise
            else:
                if not flags & posix.O_PATH or not S_ISLNK(posix.fstat(fd).st_mode):
                    return fd
                posix.close(fd)
            self._pending.append(name)
        raise OSError(errno.ELOOP, "it keeps changing")

    def settle(self) -> bytes:
        """Walk until what is left is one name that is not a link, or `.` for the folder itself."""
        while True:
            name = self._pending.pop()
            if name in (b"", b"."):
                if not self._pending:
                    return b"."
            elif name == b"..":
                self._back()
                if not self._pending:
                    return b"."
            elif self._pending:
                self._enter(name)
            else:
                target = _link_target(name, self.folder)
                if target is None:
                    return name
                self._expand(name, target)

    def _back(self) -> None:
        if self._held:
            posix.close(self._held.pop())
        elif self._anchor.confined:
            raise OSError(errno.EXDEV, "leads out")

    def _enter(self, name: bytes) -> None:
        for _ in range(_MAX_LINKS):
            try:
                self._held.append(posix.open(name, _FOLDER | posix.O_NOFOLLOW, dir_fd=self.folder))
            except NotADirectoryError:
                target = _link_target(name, self.folder)
                if target is not None:
                    self._expand(name, target)
                    return
                if not self._was_swapped(name):
                    raise
            except FileNotFoundError:
                if not self._make:
                    raise
                self._make_folder(name)
            else:
                return
        raise OSError(errno.ELOOP, "it keeps changing")

    def _was_swapped(self, name: bytes) -> bool:
        """Return whether what was not a folder a moment ago is one now, or a link."""
        mode = posix.stat(name, dir_fd=self.folder, follow_symlinks=False).st_mode
        return S_ISDIR(mode) or S_ISLNK(mode)

    def _make_folder(self, name: bytes) -> None:
        try:
            posix.mkdir(name, 0o777, dir_fd=self.folder)
        except FileExistsError:
            pass  # Somebody else made it, or a dangling link is in its place: the next lookup tells.

    def _expand(self, name: bytes, target: bytes) -> None:
        self._links += 1
        if not self._follow or self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, posix.strerror(errno.ELOOP))
        if _is_magic(name, self.folder):
            raise OSError(errno.EXDEV, "a magic link")
        parts = target.split(b"/")[::-1]
        if target.startswith(b"/"):
            # The text is only read here; where it leads is looked up from the anchor again, so no race can widen it.
            for expected in self._anchor.parts:
                while parts and parts[-1] in (b"", b"."):
                    parts.pop()
                if not parts or parts.pop() != expected:
                    raise OSError(errno.EXDEV, "leads out")
            self.close()
            parts = parts or [b"."]
        self._pending.extend(parts)


def _link_target(name: bytes, folder: int) -> bytes | None:
    """Return where a link points; None for what is not a link or does not exist."""
    try:
        return posix.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _is_magic(name: bytes, folder: int) -> bool:
    """Return whether a procfs link jumps somewhere instead of naming a path (`/proc/<pid>/root`, `/proc/<pid>/fd/3`).

    Those in the root of procfs itself (`self`, `mounts`) are ordinary; any other link there counts as magic.
    """
    try:
        proc = posix.stat(b"/proc")
        link = posix.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return link.st_dev == proc.st_dev and posix.fstat(folder).st_ino != proc.st_ino
