"""Where a runner's file tools may go: find the held-open folder that confines a path, and name what went wrong."""

from __future__ import annotations

import errno
import posix
import sys
from _stat import S_ISDIR, S_ISREG

from ..core.failure import ToolError, from_os_error
from .beneath import Anchor, Opener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

LOCALE_IS_UTF8 = sys.getfilesystemencoding() == "utf-8"
# O_NONBLOCK: a FIFO must not block the runner until somebody writes. O_NOCTTY: no terminal becomes the runner's.
READ_ONLY = posix.O_RDONLY | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
_HELD = posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC


class Location:
    """Where a path lies: the anchor that confines it, the rest below it, and both as the agent sees them."""

    __slots__ = ("absolute", "anchor", "path", "relative")

    def __init__(self, anchor: Anchor, relative: bytes, absolute: bytes, path: str) -> None:
        self.anchor = anchor
        self.relative = relative
        self.absolute = absolute
        self.path = path

    @property
    def shown(self) -> str:
        """Return the path fit for a message."""
        return shown(self.path)


class Context:
    """The workspace and the roots, held open from the start so that no later swap of them moves the file tools."""

    def __init__(self, workspace: str, roots: Sequence[str], *, kernel: bool = True, enclosed: bool = False) -> None:
        self.workspace = workspace
        # In a sandbox the rest of its file system may be read; a runner without walls of its own stays in its roots.
        self._enclosed = enclosed
        self.roots = tuple(roots)
        self.opener = Opener(kernel=kernel)
        self._workspace = normalise(to_bytes(workspace))
        self._prefix = self._workspace.rstrip(b"/") + b"/"
        # Deepest first: a path belongs to the narrowest root that contains it.
        paths = sorted({self._workspace, *(normalise(to_bytes(root)) for root in roots)}, key=len, reverse=True)
        self._anchors = [Anchor(path, _hold(path), confined=True) for path in paths]
        self._top = Anchor(b"/", _hold(b"/"), confined=False)

    def close(self) -> None:
        """Release the held folders."""
        for anchor in (*self._anchors, self._top):
            if anchor.fd >= 0:
                posix.close(anchor.fd)
        self._anchors.clear()
        self._top.fd = -1

    def locate(self, path: str) -> Location:
        """Return where `path` lies: relative to the workspace, or absolute as seen inside; `..` is resolved as text."""
        spelled = to_bytes(path)
        if spelled.startswith(b"/"):
            absolute = normalise(spelled)
        else:
            below = _normalise_below(spelled)
            if below is None:
                raise ToolError("outside", f"{shown(path)} climbs out of the workspace {self.workspace}")
            absolute = self._prefix + below if below else self._workspace
        for anchor in self._anchors:
            if absolute == anchor.path:
                return Location(anchor, b"", absolute, path)
            if absolute.startswith(anchor.prefix):
                return Location(anchor, absolute[len(anchor.prefix) :], absolute, path)
        if self._enclosed:
            raise ToolError("outside", f"{shown(path)} is outside the roots of this runner: {', '.join(self.roots)}")
        return Location(self._top, absolute[1:], absolute, path)

    def open(self, place: Location, flags: int) -> int:
        """Return a descriptor of what lies there, links followed as far as they stay inside."""
        try:
            return self.opener.open(place.anchor, place.relative, flags)
        except OSError as error:
            raise failed(error, place) from None

    def open_regular(self, place: Location) -> tuple[int, posix.stat_result]:
        """Return a readable descriptor of a regular file, and its state."""
        fd = self.open(place, READ_ONLY)
        state = posix.fstat(fd)
        if not S_ISREG(state.st_mode):
            posix.close(fd)
            raise not_regular(state, place)
        return fd, state

    def show(self, absolute: bytes) -> str:
        """Return a path for a result: relative to the workspace if inside it, bytes that are not UTF-8 replaced."""
        if absolute.startswith(self._prefix):
            absolute = absolute[len(self._prefix) :]
        elif absolute == self._workspace:
            absolute = b"."
        return absolute.decode("utf-8", "replace")


def open_directory(ctx: Context, path: str) -> int:
    """Return a descriptor of a folder for fchdir; it grants no reading."""
    return ctx.open(ctx.locate(path), _HELD)


def _hold(path: bytes) -> int:
    """Return the folder's descriptor, or -1 if there is none: what lies below is then not found."""
    try:
        return posix.open(path, _HELD)
    except OSError:
        return -1


def to_bytes(path: str) -> bytes:
    """Return a path as the kernel takes it, whatever the locale."""
    return path.encode("utf-8", "surrogateescape")


def to_text(path: bytes) -> str:
    """Return a path as patterns see it: what to_bytes makes of it is the same path again."""
    return path.decode("utf-8", "surrogateescape")


def entry_bytes(name: str) -> bytes:
    """Return the real name of an entry of a listed folder."""
    return name.encode(sys.getfilesystemencoding(), "surrogateescape")


def entry_text(name: str) -> str:
    """Return the name of an entry of a listed folder as patterns see it, UTF-8, where the locale is not."""
    return to_text(entry_bytes(name))


def shown(path: str) -> str:
    """Return a path fit for a message."""
    return path if path.isascii() else to_bytes(path).decode("utf-8", "replace")


def _normalise_below(spelled: bytes) -> bytes | None:
    parts: list[bytes] = []
    for part in spelled.split(b"/"):
        if part == b"..":
            if not parts:
                return None
            parts.pop()
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts)


def normalise(spelled: bytes) -> bytes:
    """Return an absolute path without `.`, `..` and doubled slashes, as text: links are not looked at."""
    parts: list[bytes] = []
    for part in spelled.split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts)


def not_regular(state: posix.stat_result, place: Location) -> ToolError:
    """Return why something that is not a regular file is refused."""
    if S_ISDIR(state.st_mode):
        return ToolError("is_directory", f"{place.shown} is a folder; ls lists it")
    return ToolError("not_a_file", f"{place.shown} is not a regular file (a pipe, device or socket)")


def failed(error: OSError, place: Location) -> ToolError:
    """Return the kernel's refusal of a file operation as an error of the wire."""
    number = error.errno
    if number == errno.EXDEV and not place.anchor.confined:
        return ToolError("outside", f"{place.shown} goes through a magic link of /proc, which is not followed")
    if number == errno.EXDEV:
        inside = place.anchor.path.decode("utf-8", "replace")
        return ToolError("outside", f"{place.shown} leads out of {inside} through a link, which is not followed")
    if number == errno.ELOOP:
        return ToolError("not_found", f"{place.shown}: too many links, one leading to the next")
    if number == errno.ENOTDIR:
        return ToolError("not_a_directory", f"{place.shown}: it, or a part on the way to it, is not a folder")
    if number in (errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP):
        return ToolError("not_a_file", f"{place.shown} is not a regular file (a pipe, device or socket)")
    if number == errno.EBADF and place.anchor.fd < 0:
        return ToolError("not_found", f"{place.shown}: there is no such file or folder")
    return from_os_error(error, place.shown)
