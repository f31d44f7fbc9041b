"""What programs do to files beyond the agents' tools: stat, ls page by page, mkdir, remove, move and realpath.

The same anchors confine them as the tools: no link leads out, whatever is swapped meanwhile.
"""

from __future__ import annotations

import errno
import posix
from _stat import S_ISDIR, S_ISREG

from ..core import arguments
from ..core.arguments import invalid
from ..core.failure import ToolError
from .atomic import Replacement
from .context import Context, entry_bytes, failed
from .file_tools import kind_of, list_folder
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Location

_PATH = {"path": arguments.path}
_HELD = posix.O_PATH | posix.O_CLOEXEC
_FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
_DEEPEST = 256
_CHUNK = 512 << 10


def stat(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Describe what a path leads to, or with `follow` false the link itself."""
    values = arguments.take("fs.stat", args, _PATH, {"follow": arguments.flag})
    place = ctx.locate(values["path"])
    if values["follow"] is False and place.relative:
        with _Entry(ctx, values["path"]) as entry:
            return {"data": _described(entry.look())}
    fd = ctx.open(place, _HELD)
    try:
        return {"data": _described(posix.fstat(fd))}
    finally:
        posix.close(fd)


def ls(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Return the entries of a folder by name, those after the name `after`; a full page says `truncated`."""
    values = arguments.take("fs.ls", args, {}, {**_PATH, "after": arguments.text})
    return list_folder(ctx, values["path"] or ".", hidden=True, after=(values["after"] or "").encode())


def mkdir(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Make a folder; `parents`: with those above it, `exist_ok`: one that is there already will do."""
    values = arguments.take("fs.mkdir", args, _PATH, {"parents": arguments.flag, "exist_ok": arguments.flag})
    place = ctx.locate(values["path"])
    if not place.relative:
        return _made(ctx, place, exist_ok=values["exist_ok"] is True)
    try:
        folder, name = ctx.opener.open_parent(place.anchor, place.relative, make=values["parents"] is True)
        try:
            posix.mkdir(name, 0o777, dir_fd=folder)
        finally:
            posix.close(folder)
    except FileExistsError:
        return _made(ctx, place, exist_ok=values["exist_ok"] is True)
    except OSError as error:
        raise failed(error, place) from None
    return {"data": {"created": True}}


def remove(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Remove a file or link; a folder, with all in it, only if `recursive` is true."""
    values = arguments.take("fs.remove", args, _PATH, {"recursive": arguments.flag})
    with _Entry(ctx, values["path"]) as entry:
        if not S_ISDIR(entry.look().st_mode):
            posix.unlink(entry.name, dir_fd=entry.folder)
        elif values["recursive"]:
            _remove_folder(entry.name, entry.folder, 0)
        else:
            raise ToolError("is_directory", f"{entry.place.shown} is a folder; recursive removes it with all in it")
    return {"data": {}}


def move(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Rename or move a file, link or folder; what is at `to` already is replaced only if `overwrite` is true."""
    values = arguments.take("fs.move", args, {**_PATH, "to": arguments.path}, {"overwrite": arguments.flag})
    with _Entry(ctx, values["path"]) as source, _Entry(ctx, values["to"]) as target:
        state = source.look()
        if target.exists() and not values["overwrite"]:
            raise ToolError("exists", f"{target.place.shown} exists; overwrite replaces it")
        try:
            posix.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise ToolError("exists", f"{target.place.shown} is a folder that is not empty") from None
            if error.errno == errno.EINVAL:
                raise invalid(f"{target.place.shown} lies in {source.place.shown} itself") from None
            if error.errno != errno.EXDEV:
                raise
            if not S_ISREG(state.st_mode):
                message = f"{source.place.shown} is on another file system than {target.place.shown}; use exec with mv"
                raise ToolError("conflict", message) from None
            _copy(source, ctx, values["to"])
            posix.unlink(source.name, dir_fd=source.folder)
    return {"data": {}}


def realpath(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Return the absolute path, as seen inside, to which all links of a path lead."""
    place = ctx.locate(arguments.take("fs.realpath", args, _PATH, {})["path"])
    fd = ctx.open(place, _HELD)
    try:
        found = posix.readlink(b"/proc/self/fd/%d" % fd)
    except OSError as error:
        raise failed(error, place) from None
    finally:
        posix.close(fd)
    return {"data": {"path": found.decode("utf-8", "replace")}}


class _Entry:
    """A name in a folder that is held open; neither the name nor what is done to it follows a link."""

    __slots__ = ("folder", "name", "place")

    def __init__(self, ctx: Context, path: str) -> None:
        self.place: Location = ctx.locate(path)
        head, _, self.name = self.place.relative.rpartition(b"/")
        if not self.name:
            raise ToolError("permission_denied", f"{self.place.shown} is a root of this sandbox, which stays")
        try:
            self.folder = ctx.opener.open(self.place.anchor, head, _HELD | posix.O_DIRECTORY)
        except OSError as error:
            raise failed(error, self.place) from None

    def __enter__(self) -> _Entry:  # noqa: PYI034  Python 3.9 has no Self
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        posix.close(self.folder)
        if isinstance(error, OSError):
            raise failed(error, self.place) from None

    def look(self) -> posix.stat_result:
        return posix.stat(self.name, dir_fd=self.folder, follow_symlinks=False)

    def exists(self) -> bool:
        try:
            self.look()
        except FileNotFoundError:
            return False
        return True


def _described(state: posix.stat_result) -> dict[str, Any]:
    return {
        "type": kind_of(state.st_mode),
        "size": state.st_size,
        "mode": state.st_mode & 0o7777,
        "modified": round(state.st_mtime, 3),
    }


def _made(ctx: Context, place: Location, *, exist_ok: bool) -> dict[str, Any]:
    """Return the answer for something that is there already: a folder will do where that was said."""
    if not exist_ok:
        raise ToolError("exists", f"{place.shown} exists")
    try:
        posix.close(ctx.open(place, _HELD | posix.O_DIRECTORY))
    except ToolError:
        raise ToolError("exists", f"{place.shown} exists, and is not a folder") from None
    return {"data": {"created": False}}


def _remove_folder(name: bytes, above: int, depth: int) -> None:
    if depth > _DEEPEST:
        raise invalid(f"folders nested deeper than {_DEEPEST} are not removed; use exec with rm -rf")
    folder = posix.open(name, _FOLDER, dir_fd=above)
    try:
        for entry in posix.listdir(folder):
            inner = entry_bytes(entry)
            if S_ISDIR(posix.stat(inner, dir_fd=folder, follow_symlinks=False).st_mode):
                _remove_folder(inner, folder, depth + 1)
            else:
                posix.unlink(inner, dir_fd=folder)
    finally:
        posix.close(folder)
    posix.rmdir(name, dir_fd=above)


def _copy(source: _Entry, ctx: Context, path: str) -> None:
    """Copy a file to another file system: whole, or not at all."""
    reader = posix.open(source.name, posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_CLOEXEC, dir_fd=source.folder)
    target = Target(ctx, path)
    replacement = Replacement(target, posix.fstat(reader))
    try:
        while piece := posix.read(reader, _CHUNK):
            replacement.write(piece)
        replacement.commit()
    finally:
        replacement.abort()
        target.close()
        posix.close(reader)


OPERATIONS = {
    "fs.stat": stat,
    "fs.ls": ls,
    "fs.mkdir": mkdir,
    "fs.remove": remove,
    "fs.move": move,
    "fs.realpath": realpath,
}
