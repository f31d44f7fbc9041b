"""The tool apply_patch: plan a whole patch against the real files in memory, then apply all of it or none."""

from __future__ import annotations

import posix

from ..core import arguments
from ..core.arguments import invalid
from ..core.failure import ToolError
from .context import failed
from .hunks import apply_hunks, content_of, parse
from .staging import Staging
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .context import Context
    from .hunks import Operation

# Each file holds a descriptor of its folder open, and the runner has few.
MAX_FILES = 200
# A file is split into lines, which costs many times its size.
FILE_LIMIT = 4 << 20
TOTAL_LIMIT = 64 << 20


class _File:
    """One file of the plan: where it is, and what it will be (None: removed). Without its folder it has no target."""

    __slots__ = ("before", "content", "like", "path", "target")

    def __init__(self, path: str, target: Target | None) -> None:
        self.path = path
        self.target = target
        known = target is not None and target.previous is not None
        self.before: bytes | None = target.read(FILE_LIMIT) if target is not None and known else None
        self.content = self.before
        self.like = None if target is None else target.previous


class _PatchedFiles:
    """The files of a patch as they will be; an operation sees what the ones before it did."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._files: dict[bytes, _File] = {}
        self._made: list[bytes] = []
        self._size = 0

    def run(self, operation: Operation) -> dict[str, str]:
        """Plan one operation; return its line of the result."""
        file = self._file(operation.path)
        if operation.action == "add":
            # Models rewrite a file as often as they change it: an existing file is replaced, and keeps its mode.
            file.like = None if file.content is None else file.like
            file.content = content_of(operation)
            return {"path": operation.path, "action": "added"}
        if file.content is None:
            raise ToolError("not_found", f"{operation.path}: there is no such file")
        if operation.action == "delete":
            self._check_no_link(file)
            file.content = None
            return {"path": operation.path, "action": "deleted"}
        content = apply_hunks(file.content, operation)
        if operation.move_to is None:
            file.content = content
            return {"path": operation.path, "action": "updated"}
        self._check_no_link(file)
        moved = self._file(operation.move_to)
        if moved.content is not None:
            self._check_no_link(moved)
        like, file.content = file.like, None
        moved.content, moved.like = content, like
        return {"path": operation.move_to, "action": "moved", "from": operation.path}

    def apply(self) -> None:
        """Stage every difference and commit them together."""
        staging = Staging()
        try:
            for file in self._files.values():
                if file.content is None:
                    if file.target is not None and file.before is not None:
                        staging.remove(file.target)
                    continue
                if file.target is None:
                    file.target = self._make_folders(file.path)
                if file.content != file.before or file.like is not file.target.previous:
                    staging.put(file.target, file.content, file.like)
            staging.commit()
        except (ToolError, OSError):
            staging.close()
            self._take_back_folders()
            raise
        staging.close()

    def close(self) -> None:
        """Release the folders."""
        for file in self._files.values():
            if file.target is not None:
                file.target.close()

    def _file(self, path: str) -> _File:
        arguments.path("a path of the patch", path)
        absolute = self._ctx.locate(path).absolute
        if absolute not in self._files:
            if len(self._files) >= MAX_FILES:
                raise invalid(f"the patch touches more than {MAX_FILES} files; split it")
            self._files[absolute] = self._look(path)
        return self._files[absolute]

    def _look(self, path: str) -> _File:
        try:
            target = Target(self._ctx, path)
        except ToolError as error:
            if error.code != "not_found":
                raise
            return _File(path, None)
        try:
            self._check_alias(target)
            file = _File(path, target)
            self._size += len(file.before or b"")
            if self._size > TOTAL_LIMIT:
                raise invalid(f"the files of the patch are larger than {TOTAL_LIMIT >> 20} MiB together; split it")
        except ToolError:
            target.close()
            raise
        return file

    def _check_alias(self, target: Target) -> None:
        """Refuse two names that links make one file: each would be planned as if the other did not exist."""
        for other in self._files.values():
            there = other.target
            if there is not None and there.name == target.name and _same(there.folder, target.folder):
                names = f"{other.path} and {target.place.shown}"
                raise invalid(f"{names} are one file through a link; name it one way")

    def _check_no_link(self, file: _File) -> None:
        """Refuse a link: deleting or moving through one would surprise on either side."""
        place = self._ctx.locate(file.path)
        head, _, name = place.relative.rpartition(b"/")
        try:
            folder = self._ctx.opener.open(place.anchor, head, posix.O_PATH | posix.O_DIRECTORY)
        except OSError as error:
            raise failed(error, place) from None
        try:
            own = file.target is not None and file.target.name == name and _same(file.target.folder, folder)
        finally:
            posix.close(folder)
        if not own:
            raise ToolError("not_a_file", f"{file.path} is a link; delete or move it with exec")

    def _make_folders(self, path: str) -> Target:
        """Return the target of a file whose folder is missing, and note every folder that is made for it."""
        place = self._ctx.locate(path)
        missing: list[bytes] = []
        folder = place.relative.rpartition(b"/")[0]
        while folder:
            try:
                posix.close(self._ctx.opener.open(place.anchor, folder, posix.O_PATH))
                break
            except OSError:
                missing.append(folder)
            folder = folder.rpartition(b"/")[0]
        prefix = place.absolute[: len(place.absolute) - len(place.relative)]
        self._made += [prefix + folder for folder in reversed(missing)]
        return Target(self._ctx, path, make=True)

    def _take_back_folders(self) -> None:
        """Remove the folders that were made for a patch that failed; one that is in use stays."""
        for folder in reversed(self._made):
            place = self._ctx.locate(folder.decode("utf-8", "surrogateescape"))
            try:
                above, name = self._ctx.opener.open_parent(place.anchor, place.relative)
            except OSError:
                continue
            try:
                posix.rmdir(name, dir_fd=above)
            except OSError:
                pass  # Somebody put something into it.
            finally:
                posix.close(above)


def _same(one: int, other: int) -> bool:
    first, second = posix.fstat(one), posix.fstat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def apply_patch(args: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Add, delete, update and move files as the patch says; after an error everything is as it was."""
    values = arguments.take("apply_patch", args, {"patch": arguments.text}, {})
    operations = parse(values["patch"])
    plan = _PatchedFiles(ctx)
    try:
        done = [plan.run(operation) for operation in operations]
        plan.apply()
    finally:
        plan.close()
    return {"data": {"files": done}}
