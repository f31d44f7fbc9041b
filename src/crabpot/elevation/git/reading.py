"""Ask git what it would obey: its repository, the configuration that it reads there, and whose each value is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S = 20.0
_LARGEST = 4 << 20
_NO_REPOSITORY = b"not a git repository"
# Written by the repository itself; the rest is the operator's, or ours.
_OWN = frozenset({"local", "worktree"})
_OPERATORS = frozenset({"system", "global"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """One that git found, its links resolved by git; `top` is None without a work tree."""

    git_dir: str
    common_dir: str
    top: str | None
    local: tuple[tuple[str, str], ...]
    operators: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """The host's git, which here only reads: none of these questions runs a program or a hook."""

    program: str
    env: Mapping[str, str]

    async def exec_path(self) -> str:
        """Ask where its own programs lie."""
        return (await self._ask("/", "--exec-path"))[1].decode("utf-8", "surrogateescape").rstrip("\n")

    async def repository(self, folder: str, leading: tuple[str, ...]) -> Repository | None:
        """Find the repository of a folder, or None where there is none."""
        code, out, wrong = await self._run(folder, *leading, "rev-parse", "--absolute-git-dir")
        if code != 0:
            if _NO_REPOSITORY in wrong:
                return None
            raise HostRefused("denied", f"git cannot read the repository: {_last_line(wrong)}")
        common = (await self._ask(folder, *leading, "rev-parse", "--path-format=absolute", "--git-common-dir"))[1]
        bare, top, _ = await self._run(folder, *leading, "rev-parse", "--show-toplevel")
        listed = (await self._ask(folder, *leading, "config", "--list", "--show-scope", "-z"))[1]
        pairs = list(_pairs(listed))
        return Repository(
            git_dir=_path(out),
            common_dir=_path(common),
            top=None if bare else _path(top),
            local=tuple((key, value) for scope, key, value in pairs if scope in _OWN),
            operators=tuple((key, value) for scope, key, value in pairs if scope in _OPERATORS),
        )

    async def _ask(self, folder: str, *words: str) -> tuple[int, bytes, bytes]:
        answer = await self._run(folder, *words)
        if answer[0] != 0:
            raise HostRefused("denied", f"git cannot read the repository: {_last_line(answer[2])}")
        return answer

    async def _run(self, folder: str, *words: str) -> tuple[int, bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            self.program,
            *words,
            cwd=folder,
            env=dict(self.env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                out, wrong = await process.communicate()
        except TimeoutError:
            raise HostRefused("denied", f"git did not read the repository within {_TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if len(out) > _LARGEST:
            raise HostRefused("denied", "the repository's configuration is larger than anybody's")
        return process.returncode or 0, out, wrong


def _pairs(listed: bytes) -> list[tuple[str, str, str]]:
    """Split `git config --list --show-scope -z`; a key without a value means true."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, pair in zip(fields[0::2], fields[1::2], strict=False):
        key, equals, value = pair.partition("\n")
        found.append((scope, key, value if equals else "true"))
    return found


def _path(out: bytes) -> str:
    return out.removesuffix(b"\n").decode("utf-8", "surrogateescape")


def _last_line(wrong: bytes) -> str:
    lines = wrong.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
