"""`cp`: files and folders between here and a session's place, binary-safe and in constant memory."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.doors.cli.calling import gateway, guarded
from crabpot.doors.cli.frame import OK, note
from crabpot.errors import CrabpotError
from crabpot.execution import Streams

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator

    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.client import RemoteGateway
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult

_CHUNK = 1024 * 1024
_DEEPEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A path inside a session's place."""

    session: str
    path: str

    def below(self, name: str) -> Remote:
        """Give the path of an entry."""
        return Remote(session=self.session, path=f"{self.path.rstrip('/')}/{name}")


def parse(text: str) -> Remote | str:
    """Read `SESSION:/path`, or a local path; one that begins with / or . is always local."""
    session, colon, path = text.partition(":/")
    if not colon or not session or text.startswith(("/", ".")):
        return text
    return Remote(session=session, path=f"/{path}")


def copy(frame: Frame, options: Namespace) -> int:
    """Copy in or out."""
    return guarded(_copy(frame, parse(options.source), parse(options.target)))


async def _copy(frame: Frame, source: Remote | str, target: Remote | str) -> int:
    async with gateway(frame.app()) as opened:
        copier = _Copier(opened)
        if isinstance(source, str) and isinstance(target, Remote):
            await copier.put(source, await copier.landing(source, target))
        elif isinstance(source, Remote) and isinstance(target, str):
            await copier.get(source, _landing(source, target))
        else:
            raise CrabpotError("cp takes one local path and one SESSION:/path, as in agent:main:main:/workspace/a.txt")
    print(f"copied {copier.files} files, {copier.size} bytes")
    return OK


def _landing(source: Remote, target: str) -> str:
    return os.path.join(target, os.path.basename(source.path.rstrip("/"))) if os.path.isdir(target) else target


class _Copier:
    def __init__(self, opened: Gateway | RemoteGateway) -> None:
        self._gateway = opened
        self.files = 0
        self.size = 0

    async def landing(self, source: str, target: Remote) -> Remote:
        """Copy into a folder that is there, else to the very name."""
        listed = await self._gateway.call(target.session, "ls", {"path": target.path})
        return target.below(os.path.basename(os.path.abspath(source))) if listed.success else target

    async def put(self, source: str, target: Remote, depth: int = 0) -> None:
        """Copy in. Links are not followed: they would bring in what was not named."""
        facts = os.lstat(source) if depth else os.stat(source)
        if stat.S_ISDIR(facts.st_mode):
            _check_depth(depth)
            for name in sorted(os.listdir(source)):
                await self.put(os.path.join(source, name), target.below(name), depth + 1)
        elif stat.S_ISREG(facts.st_mode):
            streams = Streams(source=self._pieces(source))
            self._check(
                target, await self._gateway.call(target.session, "write", {"path": target.path}, streams=streams)
            )
            if facts.st_mode & stat.S_IXUSR:
                await self._gateway.call(target.session, "exec", {"command": f"chmod +x -- {_quoted(target.path)}"})
            self.files += 1
        else:
            note(f"{source} is no regular file or folder; it was left out")

    async def _pieces(self, path: str) -> AsyncIterator[bytes]:
        with open(path, "rb", buffering=0) as stream:
            while piece := stream.read(_CHUNK):
                self._count(len(piece))
                yield piece

    async def get(self, source: Remote, target: str, depth: int = 0) -> None:
        """Copy out. What the sandbox says is hostile: a name that would leave the target is refused."""
        listed = await self._gateway.call(source.session, "ls", {"path": source.path, "all": True})
        if not listed.success:
            await self._get_file(source, target)
            return
        _check_depth(depth)
        os.makedirs(target, exist_ok=True)
        for entry in (listed.data or {}).get("entries", []):
            name, kind = _entry(entry)
            if kind == "directory":
                await self.get(source.below(name), os.path.join(target, name), depth + 1)
            elif kind == "file":
                await self._get_file(source.below(name), os.path.join(target, name))
            else:
                note(f"{source.path}/{name} is no regular file or folder; it was left out")

    async def _get_file(self, source: Remote, target: str) -> None:
        # O_NOFOLLOW: an earlier entry of the same listing cannot plant a link for a later one to be written through.
        handle = os.open(target + ".crabpot-part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        try:
            with os.fdopen(handle, "wb", buffering=0) as stream:

                async def keep(_stream: str, data: bytes) -> None:
                    self._count(len(data))
                    stream.write(data)

                args = {"path": source.path, "encoding": "base64"}
                streams = Streams(sink=keep)
                self._check(source, await self._gateway.call(source.session, "read", args, streams=streams))
            os.replace(target + ".crabpot-part", target)
        except BaseException:
            os.unlink(target + ".crabpot-part")
            raise
        self.files += 1

    def _count(self, size: int) -> None:
        before, self.size = self.size, self.size + size
        if sys.stderr.isatty() and before // (64 * _CHUNK) != self.size // (64 * _CHUNK):
            print(f"crabpot: {self.size // _CHUNK} MiB", file=sys.stderr)

    def _check(self, place: Remote, result: ToolResult) -> None:
        if result.error is not None:
            raise CrabpotError(f"{place.session}:{place.path}: {result.error.code}: {result.error.message}")


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise CrabpotError(f"folders nested deeper than {_DEEPEST} are not copied")


def _entry(entry: Any) -> tuple[str, str]:
    name, kind = (entry.get("name"), entry.get("type")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(kind, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise CrabpotError(f"the sandbox listed {name!r}, which is no name of a file; nothing more was copied")
    return name, kind


def _quoted(path: str) -> str:
    from shlex import quote  # noqa: PLC0415

    return quote(path)
