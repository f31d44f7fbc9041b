"""`cp` out of a session's sandbox. Its data is hostile: files are written only to the target that the person named."""

from __future__ import annotations

import os
import secrets
from shlex import quote
from typing import TYPE_CHECKING

from crabpot.doors.cli.copying.copier import Copier, check, check_depth, left_out
from crabpot.doors.cli.frame import note
from crabpot.errors import CrabpotError
from crabpot.sandboxes.streams import Streams
from crabpot.state.untrusted import CAREFULLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.doors.cli.copying.copier import Remote
    from crabpot.model import ToolResult

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Receiver(Copier):
    """Copies out. The sandbox's data is hostile: a name that would escape the target is refused."""

    async def receive(self, source: Remote, target: str) -> None:
        """Copy a file or folder into the target if that is a folder, else to the target itself."""
        name = os.path.basename(source.path.rstrip("/"))
        if os.path.isdir(target) and name not in ("", ".", ".."):
            target = os.path.join(target, name)
        self._executable = await self._find_executable(source)
        listed = await self.call("ls", path=source.path, all=True)
        if listed.success:
            os.makedirs(target, exist_ok=True)
            await self._receive_folder(source, listed, os.open(target, _FOLDER), 0)
            return
        folder = os.open(os.path.dirname(target) or ".", _FOLDER)
        try:
            await self._receive_file(source, folder, os.path.basename(target))
        finally:
            os.close(folder)

    async def _find_executable(self, source: Remote) -> frozenset[str]:
        """Return which files are executable, by the sandbox's word; used only for files that are copied."""
        path = quote(source.path.rstrip("/") or "/")
        found = await self.call("exec", command=f"find {path} -type f -perm -100 -print0 2>/dev/null")
        if found.error is not None:
            note(f"execute permissions are not copied: {found.error.message}")
        return frozenset(found.stdout.split("\0"))

    async def _receive_folder(self, source: Remote, listed: ToolResult, folder: int, depth: int) -> None:
        try:
            check(source, listed)
            check_depth(depth)
            if listed.truncated:
                raise CrabpotError(f"{source} has more entries than one listing shows; copy it as an archive")
            for name, kind in _entries(listed):
                inner = source.below(name)
                if kind == "directory":
                    listed_inner = await self.call("ls", path=inner.path, all=True)
                    await self._receive_folder(inner, listed_inner, _folder(name, folder), depth + 1)
                elif kind == "file":
                    await self._receive_file(inner, folder, name)
                else:
                    left_out(str(inner))
        finally:
            os.close(folder)

    async def _receive_file(self, source: Remote, folder: int, name: str) -> None:
        part = f".crabpot-{secrets.token_hex(8)}.part"
        mode = 0o777 if source.path in self._executable else 0o666
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as stream:

                async def keep(_stream: str, data: bytes) -> None:
                    self.count(len(data))
                    stream.write(data)

                check(source, await self.call("read", Streams(sink=keep), path=source.path, encoding="base64"))
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(part, dir_fd=folder)
            raise
        self.files += 1


def _folder(name: str, folder: int) -> int:
    """Create or open a folder; a link planted in its place is an error, and is not followed."""
    if not os.path.lexists(f"/proc/self/fd/{folder}/{name}"):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, CAREFULLY | os.O_DIRECTORY, dir_fd=folder)


def _entries(listed: ToolResult) -> Iterator[tuple[str, str]]:
    entries = (listed.data or {}).get("entries")
    for entry in entries if isinstance(entries, list) else [None]:
        name, kind = (entry.get("name"), entry.get("type")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise CrabpotError(f"the sandbox listed {name!r}, which is not a file name; nothing more was copied")
        yield name, str(kind)
