"""What a program does with the files of a session's sandbox."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, overload

from crabpot.doors.python import copying
from crabpot.doors.python.results import FileInfo, data_of, info_of, raise_failure
from crabpot.doors.python.streams import Collected, sink_of, source_of
from crabpot.errors import SandboxLost
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.doors.python.streams import Input, Taker
    from crabpot.model import ToolResult

    Timeout = float | Literal["default"] | None

_ABSENT = ("not_found", "not_a_directory")


class Files(ABC):
    """The files of a sandbox. Paths are relative to the workspace, or absolute as seen inside.

    Its methods raise CallFailed, which is also the OSError of the same meaning.
    """

    @abstractmethod
    async def _call(self, tool: str, args: Mapping[str, Any], streams: Streams | None = None) -> ToolResult:
        """Run one tool in the sandbox."""

    @abstractmethod
    def _limit(self, timeout: Timeout) -> dict[str, float]:
        """Return the argument for how long a call may take."""

    @overload
    async def read(
        self, path: str, *, text: Literal[False] = False, offset: int = 0, limit: int | None = None
    ) -> bytes: ...

    @overload
    async def read(self, path: str, *, text: Literal[True], offset: int = 0, limit: int | None = None) -> str: ...

    async def read(self, path: str, *, text: bool = False, offset: int = 0, limit: int | None = None) -> bytes | str:
        """Return the content of a file of any size: bytes, or its text, which must be UTF-8.

        Args:
            path: The file.
            text: Decode it; UnicodeDecodeError if that cannot be done.
            offset: Where to start, in bytes.
            limit: How many bytes at most.

        Raises:
            CallFailed: It is not there, or may not be read. `download` and `read_into` take a file as it comes.
        """
        collected = Collected()
        await self.read_into(path, collected.take, offset=offset, limit=limit)
        content = collected.bytes("content")
        return content.decode("utf-8") if text else content

    async def read_into(self, path: str, sink: Taker, *, offset: int = 0, limit: int | None = None) -> None:
        """Have `sink` called with `("content", data)` for each piece of a file of any size."""
        part = {"offset": offset} if limit is None else {"offset": offset, "limit": limit}
        args = {"path": path, "encoding": "base64", **part, **self._limit(None)}
        data_of(await self._call("read", args, Streams(sink=sink_of(sink))))

    async def write(self, path: str, content: Input, *, append: bool = False) -> None:
        """Create or replace a file, or with `append` add to its end; missing folders are made.

        Args:
            path: The file.
            content: Bytes, text, an open file, or pieces of bytes, of any size. Nothing is visible before all is there.
            append: Add to the end instead.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.write("data/raw.bin", bytes(range(256)))
            ...         print(len(await box.read("data/raw.bin")), [entry.name for entry in await box.ls("data")])
            >>> asyncio.run(main())
            256 ['raw.bin']
        """
        args = {"path": path, **({"append": True} if append else {}), **self._limit(None)}
        data_of(await self._call("write", args, Streams(source=source_of(content))))

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """Describe what a path leads to, or with `follow` false the link itself."""
        found = data_of(await self._call("fs.stat", {"path": path, "follow": follow}))
        return info_of(found, os.path.basename(path.rstrip("/")) or ".")

    async def exists(self, path: str) -> bool:
        """Return whether a path leads to anything."""
        result = await self._call("fs.stat", {"path": path})
        if result.error is not None and result.error.code in _ABSENT:
            return False
        data_of(result)
        return True

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """List the entries of a folder, hidden ones too, by name."""
        listed: list[FileInfo] = []
        while True:
            after = {"after": listed[-1].name} if listed else {}
            page = data_of(await self._call("fs.ls", {"path": path, **after}))
            entries = [info_of(entry, str(entry.get("name"))) for entry in page.get("entries", ())]
            listed += entries
            if not page.get("truncated"):
                return listed
            if not entries or (after and entries[-1].name <= after["after"]):
                raise SandboxLost("the sandbox lists a folder without end")

    async def mkdir(self, path: str, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a folder; `parents`: with those above it, `exist_ok`: one that is there already will do."""
        data_of(await self._call("fs.mkdir", {"path": path, "parents": parents, "exist_ok": exist_ok}))

    async def remove(self, path: str, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file or link; a folder, with all in it, only if `recursive` is true."""
        result = await self._call("fs.remove", {"path": path, "recursive": recursive, **self._limit(None)})
        if result.error is not None and not (missing_ok and result.error.code in _ABSENT):
            raise_failure(result.error)

    async def move(self, path: str, to: str, *, overwrite: bool = False) -> None:
        """Rename or move a file, link or folder; what is at `to` already is replaced only if `overwrite` is true."""
        data_of(await self._call("fs.move", {"path": path, "to": to, "overwrite": overwrite, **self._limit(None)}))

    async def realpath(self, path: str) -> str:
        """Return the absolute path, as seen inside, to which all links of a path lead."""
        found = data_of(await self._call("fs.realpath", {"path": path})).get("path")
        if not isinstance(found, str):
            raise SandboxLost("the sandbox resolved a path in no way that a runner does")
        return found

    async def upload(self, source: str | os.PathLike[str], path: str) -> None:
        """Copy a file or folder of this machine to `path`; links below it are not followed, and not copied."""
        await copying.upload(self, os.fspath(source), path)

    async def download(self, path: str, target: str | os.PathLike[str]) -> None:
        """Copy a file or folder to `target` on this machine; only files and folders, and nothing outside of it."""
        await copying.download(self, path, os.fspath(target))
