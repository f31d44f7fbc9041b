"""`cp` into a session's sandbox."""

from __future__ import annotations

import os
import stat
from shlex import quote
from typing import TYPE_CHECKING

from crabpot.doors.cli.copying.copier import CHUNK, Copier, check, check_depth, left_out
from crabpot.doors.cli.frame import note
from crabpot.sandboxes.streams import Streams
from crabpot.state.untrusted import CAREFULLY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.cli.copying.copier import Remote

_LONGEST_COMMAND = 64 * 1024


class Sender(Copier):
    """Copies in. Links are not followed: they would copy what was not named."""

    def __init__(self, opened: AnyGateway, session: str, timeout_s: float) -> None:
        super().__init__(opened, session, timeout_s)
        self._empty: list[str] = []
        self._executable: list[str] = []

    async def send(self, source: str, target: Remote) -> None:
        """Copy a file or folder into the target if that is a folder, else to the target itself."""
        os.stat(source)
        if (await self.call("ls", path=target.path)).success:
            target = target.below(os.path.basename(os.path.abspath(source)))
        # A link that was named itself is followed; nothing below it is.
        await self._send(os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), source, target, 0)
        await self._finish("mkdir -p --", self._empty, "empty folders")
        await self._finish("chmod +x --", self._executable, "execute permissions")

    async def _send(self, handle: int, shown: str, target: Remote, depth: int) -> None:
        try:
            mode = os.fstat(handle).st_mode
            if stat.S_ISREG(mode):
                result = await self.call("write", Streams(source=self._pieces(handle)), path=target.path)
                check(target, result)
                self.files += 1
                if mode & stat.S_IXUSR:
                    self._executable.append(target.path)
            elif stat.S_ISDIR(mode):
                await self._send_folder(handle, shown, target, depth)
            else:
                left_out(shown)
        finally:
            os.close(handle)

    async def _send_folder(self, folder: int, shown: str, target: Remote, depth: int) -> None:
        check_depth(depth)
        names = sorted(os.listdir(folder))
        if not names:
            self._empty.append(target.path)
        for name in names:
            path = os.path.join(shown, name)
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
                left_out(path)
                continue
            await self._send(os.open(name, CAREFULLY, dir_fd=folder), path, target.below(name), depth + 1)

    async def _pieces(self, handle: int) -> AsyncIterator[bytes]:
        while piece := os.read(handle, CHUNK):
            self.count(len(piece))
            yield piece

    async def _finish(self, command: str, paths: list[str], what: str) -> None:
        """Run a shell command on many paths at a time, for what no file tool does."""
        for words in _batches(map(quote, paths)):
            result = await self.call("exec", command=f"{command} {words}")
            if not result.success:
                note(f"{what} were not copied: {result.error.message if result.error else result.stderr.strip()}")
                return


def _batches(words: Iterable[str]) -> Iterator[str]:
    batch = ""
    for word in words:
        if batch and len(batch) + len(word) > _LONGEST_COMMAND:
            yield batch
            batch = ""
        batch += f" {word}"
    if batch:
        yield batch
