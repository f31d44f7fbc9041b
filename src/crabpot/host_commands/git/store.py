"""The gateway's own bare repositories, one for each folder and URL: created, locked, bounded, and removed when unused.

Each is a cache. `refs/heads` and `refs/tags` are what was last seen of the remote; tips from inside are in a namespace
of their own. What is lost is transferred again.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.state.ownership import make_own
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.host_commands.git.clock import Clock

_FOLDER = "git"
_UNUSED_S = 30 * 86400
_MOST = 100
_MOST_PACKS = 64
_POLL_S = 0.02
# We write the whole file: nothing else in a store configures git.
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogAllRefUpdates = false\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One locked repository, and two private folders: one to start in, one for temporary files."""

    path: str
    empty: str
    scratch: str

    @property
    def is_shallow(self) -> bool:
        """Whether the repository is a shallow clone."""
        return os.path.exists(f"{self.path}/shallow")


def name(root: str, url: str) -> str:
    """Return the name of the store for a folder of the host and a URL, a hash of both."""
    return f"{_owner(root)}-{_digest(url)}"


def _owner(root: str) -> str:
    found = os.stat(root)
    return _digest(f"{found.st_dev}:{found.st_ino}:{root}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@asynccontextmanager
async def held(state: str, digest: str, clock: Clock, *, largest: int) -> AsyncIterator[Store]:
    """Lock a store, created if missing and emptied if it outgrew its bounds."""
    home = f"{state}/{_FOLDER}"
    make_own(home)
    handle = await _lock(f"{home}/{digest}.lock", clock)
    try:
        path = f"{home}/{digest}.git"
        await asyncio.to_thread(_ready, path, largest)
        work = f"{home}/{digest}.work"
        shutil.rmtree(work, ignore_errors=True)
        for folder in (work, f"{work}/empty", f"{work}/scratch"):
            os.mkdir(folder, 0o700)
        try:
            yield Store(path=path, empty=f"{work}/empty", scratch=f"{work}/scratch")
        finally:
            shutil.rmtree(work, ignore_errors=True)
            os.utime(handle)
    finally:
        os.close(handle)


async def _lock(path: str, clock: Clock) -> int:
    """Take the lock, which also keeps apart two gateways on one state folder."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A store pruned between opening and locking is empty.
            if os.fstat(handle).st_nlink:
                return handle
        except BlockingIOError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        clock.left_s()
        await asyncio.sleep(_POLL_S)


def _ready(path: str, largest: int) -> None:
    packs = f"{path}/objects/pack"
    if os.path.isdir(packs):
        # Left over from a pack that was refused or interrupted.
        for entry in os.listdir(packs):
            if entry.startswith("tmp_"):
                os.unlink(f"{packs}/{entry}")
        count = sum(name.endswith(".pack") for name in os.listdir(packs))
        if count <= _MOST_PACKS and _size(path) <= largest:
            return
    with suppress(FileNotFoundError):
        remove_tree(path)
    # Created by hand, as git would from an empty template: a repository is these folders and two files.
    for folder in ("", "/objects", "/objects/pack", "/objects/info", "/refs", "/refs/heads", "/refs/tags"):
        os.mkdir(f"{path}{folder}", 0o700)
    for file, text in (("config", _CONFIG), ("HEAD", "ref: refs/heads/main\n")):
        with open(f"{path}/{file}", "x", encoding="ascii") as stream:
            stream.write(text)


def check(own: Store, *, largest: int) -> None:
    """Refuse what came if the store has reached its limit, and remove all of it."""
    if _size(own.path) < largest:
        return
    remove_tree(own.path)
    raise HostRefused(
        "denied",
        f"the received data and the cache reached the disk limit of {largest} bytes, and all of it was removed; "
        "ask again, for less (--depth 1, one branch), or raise sandbox.limits.disk",
    )


def prune(state: str, root: str, *, largest: int, now: float | None = None) -> list[str]:
    """Remove long unused stores, the oldest beyond a number, and those of a folder beyond its disk limit.

    Packs arrive before anybody is asked: an agent with many URLs must not exceed its share of the host's disk.
    """
    home = f"{state}/{_FOLDER}"
    try:
        found = [entry for entry in os.scandir(home) if entry.name.endswith(".lock")]
    except FileNotFoundError:
        return []
    oldest_first = sorted(found, key=lambda entry: entry.stat().st_mtime)
    spare = len(oldest_first) - _MOST
    current = time.time() if now is None else now
    stale = [one for at, one in enumerate(oldest_first) if at < spare or current - one.stat().st_mtime > _UNUSED_S]
    left, owner = largest, _owner(root)
    for one in reversed([entry for entry in oldest_first if entry not in stale and entry.name.startswith(owner)]):
        left -= _size(one.path.removesuffix(".lock") + ".git")
        stale += [one] if left < 0 else []
    return [one.name.removesuffix(".lock") for one in stale if _removed(one.path)]


def _size(path: str) -> int:
    """Return a store's disk usage, whatever is in it: packs, partial packs, and refs by the million."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in (".", *files):
            with suppress(FileNotFoundError):
                found = os.lstat(f"{folder}/{name}")
                total += max(found.st_size, found.st_blocks * 512)
    return total


def _removed(lock: str) -> bool:
    """Remove a store that nobody has locked; return whether that succeeded."""
    handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for ending in (".git", ".work"):
            with suppress(FileNotFoundError):
                remove_tree(lock.removesuffix(".lock") + ending)
        os.unlink(lock)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
