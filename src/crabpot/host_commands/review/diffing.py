"""The difference between a layer and the host as git writes it: both sides go into a repository of the gateway's own.

No attribute is read there, so nothing that an agent wrote can hide a file's changes, and git has nothing of anybody's
configuration, no network, and writes nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from crabpot.decide.gate import is_git
from crabpot.errors import HostRefused
from crabpot.host_commands.git import outside, store
from crabpot.layers.changes.change import git_mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from crabpot.approvals.identity import Identity
    from crabpot.host_commands.git.clock import Clock
    from crabpot.host_commands.git.outside import Bounds
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

_URL = "crabpot:diff"
_LARGEST_FILE = 16 << 20
_MOST = 64 << 20
_BEFORE, _AFTER = "refs/heads/before", "refs/heads/after"
_COMMIT = "commit {ref}\ncommitter crabpot <crabpot@localhost> 0 +0000\ndata 0\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGit:
    """The host's git, where its own repositories lie, and what it may cost."""

    state: str
    git: Identity
    clock: Clock
    bounds: Bounds


class File(NamedTuple):
    """A file or a link of one side: its path, its mode as git writes it, and its content."""

    path: str
    mode: str
    data: bytes


def side_of(tree: Tree, found: Iterable[tuple[str, os.stat_result | None]]) -> Iterator[File]:
    """Yield the files of a folder at some paths; what is no file, or not there, is left out."""
    for path, facts in found:
        mode = None if facts is None else git_mode(facts)
        if facts is not None and mode is not None:
            yield File(path, mode, _data(tree, path, facts))


async def diff(layer: Layer, before: Iterable[File], after: Iterable[File], by: HostGit) -> bytes:
    """Return a unified diff from one side to the other."""
    # git takes no `.git` into a tree.
    mask = f".git-{os.urandom(8).hex()}"
    kept = bytearray()

    async def keep(stream: str, data: bytes) -> None:
        if stream == "stdout":
            kept.extend(data)
        if len(kept) > _MOST:
            raise HostRefused("output_limit", f"the difference is larger than {_MOST} bytes; name some paths")

    async with (
        store.held(by.state, store.name(layer.folder, _URL), by.clock, largest=by.bounds.disk) as own,
        outside.local(by.git, own, by.clock, by.bounds) as local,
    ):
        await _import(local, _stream(before, after, mask))
        plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames")
        await local.run("diff", *plain, _BEFORE, _AFTER, "--", sink=keep)
    return bytes(kept).replace(mask.encode(), b".git")


async def _import(local: outside.Outside, pieces: Iterator[bytes]) -> None:
    said = bytearray()

    async def hear(_stream: str, data: bytes) -> None:
        said.extend(data[: 1 << 12])

    reply = await local.run("fast-import", "--quiet", "--force", "--done", sink=hear, source=_threaded(pieces))
    if reply.exit_code != 0:
        raise HostRefused("internal", f"git cannot compare: {said.decode('utf-8', 'replace').strip()[-500:]}")


async def _threaded(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _stream(before: Iterable[File], after: Iterable[File], mask: str) -> Iterator[bytes]:
    """Yield what `git fast-import` reads: a commit of each side, with what differs and nothing else."""
    for ref, side in ((_BEFORE, before), (_AFTER, after)):
        yield _COMMIT.format(ref=ref).encode()
        for one in side:
            yield b"M %s inline %s\n" % (one.mode.encode(), _quoted(one.path, mask))
            yield b"data %d\n%s\n" % (len(one.data), one.data)
        yield b"\n"
    yield b"done\n"


def _data(tree: Tree, path: str, facts: os.stat_result) -> bytes:
    if stat.S_ISLNK(facts.st_mode):
        return os.fsencode(tree.target(path))
    read = tree.read(path, _LARGEST_FILE)
    # Shown as a binary file that differs.
    return read if read is not None else f"\0 {facts.st_size} {facts.st_ino} {facts.st_mtime_ns}".encode()


def _quoted(path: str, mask: str) -> bytes:
    parts = [mask if is_git(part) else part for part in path.split("/")]
    escaped = b"".join(
        b"\\%03o" % byte if byte < 32 or byte > 126 or byte in b'"\\' else bytes([byte])  # noqa: PLR2004  printable
        for byte in os.fsencode("/".join(parts))
    )
    return b'"%s"' % escaped
