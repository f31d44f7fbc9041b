"""The file tools: read, write, edit and ls, and the two that move files of any size (stream_read, InputWriter)."""

from __future__ import annotations

import posix
from _stat import S_ISDIR, S_ISLNK, S_ISREG

from ..core import arguments
from ..core.arguments import invalid
from ..core.budget import Budget
from ..core.failure import ToolError
from .atomic import Addition, Replacement
from .context import Context, entry_bytes, failed, open_directory
from .reading import read, stream_read
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TOOLS", "Context", "InputWriter", "edit", "ls", "open_directory", "read", "stream_read", "write"]

EDIT_LIMIT = 16 << 20
MAX_ENTRIES = 2000

_PATH = {"path": arguments.path}
_WRITE_OPTIONS = {"encoding": arguments.choice("utf-8", "base64"), "append": arguments.flag}


def write(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Replace, create or (append) extend a file, with the folders that it needs."""
    values = arguments.take("write", args, {**_PATH, "content": arguments.text}, _WRITE_OPTIONS)
    content: str = values.pop("content")
    data = _from_base64(content) if values["encoding"] == "base64" else content.encode()
    writer = InputWriter(values, ctx)
    try:
        writer.write(data)
        return {"data": writer.commit()}
    finally:
        writer.abort()


def _from_base64(content: str) -> bytes:
    import binascii  # noqa: PLC0415

    compact = "".join(content.split())
    try:
        data = binascii.a2b_base64(compact)
    except ValueError as error:
        raise invalid(f"content is not base64: {error}") from None
    # The decoder skips what it does not know; if encoding it again gives something else, it was not base64.
    if binascii.b2a_base64(data, newline=False).decode() != compact:
        raise invalid("content is not base64: it contains characters outside its alphabet, or wrong padding")
    return data


class InputWriter:
    """A `write` whose content comes as raw bytes, piece by piece, in constant memory.

    Nothing is visible before commit() unless `append` was requested; abort() takes everything back, and after commit()
    does nothing.
    """

    def __init__(self, args: dict[str, Any], ctx: Context) -> None:
        values = arguments.take("write", args, _PATH, _WRITE_OPTIONS)
        self._target = Target(ctx, values["path"], make=True)
        try:
            self._file = (
                Addition(self._target) if values["append"] else Replacement(self._target, self._target.previous)
            )
        except ToolError:
            self._target.close()
            raise

    def write(self, data: bytes) -> None:
        """Add `data` to what will be the file."""
        self._file.write(data)

    def commit(self) -> dict[str, Any]:
        """Put the file in place; return the data of the result."""
        data = self._file.commit()
        self._target.close()
        return data

    def abort(self) -> None:
        """Leave nothing behind; after commit() it does nothing."""
        if self._target.folder >= 0:
            self._file.abort()
            self._target.close()


def edit(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Replace `old`, which must occur once in the file unless `all` is true; line endings, BOM and mode are kept."""
    from . import text  # noqa: PLC0415  # only an edit needs it

    required = {**_PATH, "old": arguments.text, "new": arguments.text}
    values = arguments.take("edit", args, required, {"all": arguments.flag})
    old, new = values["old"].encode(), values["new"].encode()
    if not old:
        raise invalid("old is empty; it must be the text to replace (write makes a new file)")
    if old == new:
        raise invalid("old and new are the same; nothing would change")
    target = Target(ctx, values["path"])
    try:
        if target.previous is None:
            raise ToolError("not_found", f"{target.place.shown}: there is no such file")
        mark, body = text.split_bom(target.read(EDIT_LIMIT))
        if mark and old.startswith(mark):
            old, new = old[len(mark) :], new.removeprefix(mark)
        occurrences = text.Occurrences(body, old) if old else None
        if occurrences is None or not occurrences.count:
            raise ToolError("no_match", f"{target.place.shown} does not contain the text in old; white space counts")
        if occurrences.count > 1 and not values["all"]:
            raise ToolError(
                "ambiguous_match",
                f"old occurs {occurrences.count} times in {target.place.shown}; add lines around it, or set all",
            )
        changed, count = occurrences.replaced(new)
        replacement = Replacement(target, target.previous)
        try:
            replacement.write(mark + changed)
            target.check_unchanged()
            replacement.commit()
        finally:
            replacement.abort()
    finally:
        target.close()
    return {"data": {"replacements": count}}


def ls(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Return the entries of a folder by name, MAX_ENTRIES at most; `modified` in seconds since 1970."""
    values = arguments.take("ls", args, {}, {**_PATH, "all": arguments.flag})
    return list_folder(ctx, values["path"] or ".", hidden=values["all"] is True)


def list_folder(ctx: Context, path: str, *, hidden: bool, after: bytes = b"") -> dict[str, Any]:
    """Return one page of a folder: the entries whose names sort after `after`."""
    place = ctx.locate(path)
    fd = ctx.open(place, posix.O_RDONLY | posix.O_DIRECTORY)
    try:
        names: list[bytes] = []
        truncated = False
        with posix.scandir(fd) as entries:
            for entry in entries:
                name = entry_bytes(entry.name)
                if name > after and (hidden or not name.startswith(b".")):
                    names.append(name)
                    # A folder of a million entries must not become a list of a million.
                    if len(names) >= 4 * MAX_ENTRIES:
                        names = sorted(names)[:MAX_ENTRIES]
                        truncated = True
        names.sort()
        truncated = truncated or len(names) > MAX_ENTRIES
        budget = Budget()
        listed: list[dict[str, Any]] = []
        for name in names[:MAX_ENTRIES]:
            described = _describe(name, fd)
            if described is not None and not budget.take(described["name"]):
                truncated = True
                break
            listed += [described] if described else []
    except OSError as error:
        raise failed(error, place) from None
    finally:
        posix.close(fd)
    return {"data": {"entries": listed, "truncated": truncated}}


def kind_of(mode: int) -> str:
    """Return the type of what has this mode."""
    return "file" if S_ISREG(mode) else "directory" if S_ISDIR(mode) else "link" if S_ISLNK(mode) else "other"


def _describe(name: bytes, folder: int) -> dict[str, Any] | None:
    try:
        state = posix.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None  # It was removed since it was listed.
    return {
        "name": name.decode("utf-8", "replace"),
        "type": kind_of(state.st_mode),
        "size": state.st_size,
        "modified": round(state.st_mtime, 3),
    }


TOOLS = {"read": read, "write": write, "edit": edit, "ls": ls}
