"""The private folders, which outlive their sandboxes: whose each is, when it was used, and when it is removed."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crabpot.decide.sessions import name_of_box
from crabpot.errors import LayerBusy, SandboxUnavailable
from crabpot.spec.naming import SANDBOXES, taken_by_another
from crabpot.state.ownership import make_own
from crabpot.state.removal import remove_mapped_tree, remove_tree
from crabpot.state.untrusted import open_regular, read_handle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.settings import Prune, Settings
    from crabpot.spec.spec import SandboxSpec

FOLDER = SANDBOXES
_NOTE = ".json"
# A session key has 4096 characters at most, which JSON may spell sixfold.
_LARGEST_NOTE = 64 * 1024
# Being removed: an interrupted removal is found by this ending, which nothing else has.
_GONE = ".gone"
# Being made; one that is as old as this was interrupted.
DRAFT, _ABANDONED_S = ".draft", 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One private folder and the note beside it, which the sandbox cannot reach."""

    name: str
    scope_key: str
    agent: str
    created: float
    used: float
    folder: str


class Hold:
    """A lock that keeps other processes from pruning a folder while a sandbox uses it."""

    def __init__(self, handle: int, folder: str, scope_key: str) -> None:
        self._handle = handle
        self._folder = folder
        self._scope_key = scope_key

    def pass_on(self, spec: SandboxSpec, agent: str) -> bool:
        """Make a folder that was held alone the private folder of a spec, and share it; False if the spec has one."""
        if os.path.lexists(spec.workspace):
            return False
        written = _note(spec, agent)
        # In one write, over all that was there: a gateway killed here must leave a note that can be read.
        os.pwrite(self._handle, written.ljust(os.fstat(self._handle).st_size), 0)
        try:
            # The same file by a second name, so the lock holds from the first moment that another gateway finds it.
            os.link(self._folder + _NOTE, spec.workspace + _NOTE)
        except FileExistsError:
            return False
        try:
            # The mount inside is of the folder itself, not of its name, and goes along. A pod has its folder with it.
            if spec.backend != "kubernetes":
                os.rename(self._folder, spec.workspace)
        except OSError:
            os.unlink(spec.workspace + _NOTE)
            raise
        os.unlink(self._folder + _NOTE)
        self._folder, self._scope_key = spec.workspace, spec.scope_key
        fcntl.flock(self._handle, fcntl.LOCK_SH)
        return True

    def abandon(self) -> None:
        """Release it because its sandbox was not used, and remove the folder if it is empty, and its note."""
        self._drop(missing=True)
        self.release()

    def _drop(self, *, missing: bool = False) -> None:
        # It stays if somebody else holds it, or somebody left files in it.
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError) if missing else nullcontext():
                os.rmdir(self._folder)
            os.unlink(self._folder + _NOTE)

    def renew(self) -> None:
        """Do nothing: nobody changes a private folder from outside."""

    def look(self) -> None:
        """Do nothing: nobody reviews a private folder."""

    def release(self) -> None:
        """Release it, and remove a folder in which nothing was written; safe to call twice."""
        if self._handle >= 0:
            # An agent invents sessions faster than they are pruned. What a program named is found again by its name.
            if name_of_box(self._scope_key) is None:
                self._drop()
            os.utime(self._handle)
            os.close(self._handle)
            self._handle = -1


def is_stale(prune: Prune, *, used: float, made: float, now: float) -> bool:
    """Return whether something was idle for longer, or is older, than the configuration allows."""
    return now - used > prune.idle_hours * 3600 or now - made > prune.max_age_days * 86400


async def hold(state: str, spec: SandboxSpec, agent: str) -> Hold:
    """Record whose folder this is, and hold it; wait while it is being removed."""
    return await _hold(state, spec, agent, fcntl.LOCK_SH)


async def hold_alone(state: str, spec: SandboxSpec, agent: str) -> Hold:
    """Do the same for a folder that nobody else may use until it is passed on."""
    return await _hold(state, spec, agent, fcntl.LOCK_EX)


async def _hold(state: str, spec: SandboxSpec, agent: str, lock: int) -> Hold:
    while True:
        held = _try_to_hold(state, spec, agent, lock)
        if held is not None:
            return held
        await asyncio.sleep(0.005)


def take(state: str, spec: SandboxSpec, agent: str) -> Hold:
    """Hold a folder that nobody else uses, at once; LayerBusy if somebody does."""
    held = _try_to_hold(state, spec, agent, fcntl.LOCK_EX)
    if held is None:
        raise LayerBusy(f"the files of {spec.scope_key} are in use by another gateway; end its sandbox first")
    return held


def _note(spec: SandboxSpec, agent: str) -> bytes:
    return json.dumps({"scope_key": spec.scope_key, "agent": agent, "created": time.time()}).encode()


def _try_to_hold(state: str, spec: SandboxSpec, agent: str, lock: int) -> Hold | None:
    folder = os.path.join(state, FOLDER)
    make_own(state)
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    note = os.path.join(folder, spec.name + _NOTE)
    _write_once(note, _note(spec, agent))
    try:
        handle = os.open(note, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, lock | fcntl.LOCK_NB)
        # A note that was unlinked before it was locked protects nothing.
        if os.fstat(handle).st_nlink:
            _check_owner(note, spec)
            os.utime(handle)
            return Hold(handle, note.removesuffix(_NOTE), spec.scope_key)
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _check_owner(note: str, spec: SandboxSpec) -> None:
    """Refuse another session's folder: a name has 32 bits of its key's digest, so a key can be made to collide."""
    kept = _read(note)
    if kept is None or kept.scope_key != spec.scope_key:
        raise SandboxUnavailable(taken_by_another(f"the folder {spec.name}"))


def _write_once(note: str, written: bytes) -> None:
    """Create the note in one piece or not at all: two gateways may do it at once."""
    if os.path.exists(note):
        return
    draft = f"{note}.{os.urandom(4).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(written)
        with suppress(FileExistsError):
            os.link(draft, note)
    finally:
        os.unlink(draft)


def listed(state: str) -> Iterator[Kept]:
    """Yield the folders that are kept, by name."""
    yield from filter(None, map(_look, _entries(state, _NOTE)))


def find(state: str, name: str) -> Kept | None:
    """Return the folder of a name, or None."""
    return _look(os.path.join(state, FOLDER, f"{name}{_NOTE}"))


def _look(path: str) -> Kept | None:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return None
    return _seen(path, seen.st_ino, seen.st_ctime_ns)


def is_kept(spec: SandboxSpec) -> bool:
    """Return whether the scope of a spec has a folder, by its note or by itself."""
    return os.path.lexists(spec.workspace + _NOTE) or os.path.lexists(spec.workspace)


def names(state: str) -> list[str]:
    """Return the names of the folders that are kept, with one look at the disk."""
    return [entry.removesuffix(_NOTE) for entry in _listed(state) if entry.endswith(_NOTE)]


def _entries(state: str, ending: str) -> list[str]:
    folder = os.path.join(state, FOLDER)
    return [os.path.join(folder, entry) for entry in sorted(_listed(state)) if entry.endswith(ending)]


def _listed(state: str) -> list[str]:
    try:
        return os.listdir(os.path.join(state, FOLDER))
    except FileNotFoundError:
        return []


@lru_cache(maxsize=4096)
def _seen(path: str, _inode: int, _changed_ns: int) -> Kept | None:
    """Return what a note says, read once for as long as nobody changes it: whatever does also changes its ctime."""
    return _read(path)


def _read(path: str) -> Kept | None:
    try:
        handle = open_regular(path)
        try:
            note: dict[str, Any] = json.loads(read_handle(handle, path, most=_LARGEST_NOTE))
            used = os.fstat(handle).st_mtime
        finally:
            os.close(handle)
        folder = path.removesuffix(_NOTE)
        return Kept(
            name=os.path.basename(folder),
            scope_key=str(note["scope_key"]),
            agent=str(note["agent"]),
            created=float(note["created"]),
            used=used,
            folder=folder,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def prune(state: str, settings: Settings, *, now: float) -> list[Kept]:
    """Remove the folders that are stale by their agent's settings; one in use is left alone."""

    def stale(kept: Kept) -> bool:
        keep = settings.agent(kept.agent).sandbox.prune
        return is_stale(keep, used=kept.used, made=kept.created, now=now)

    return remove(state, stale)


def remove(state: str, wanted: Callable[[Kept], bool]) -> list[Kept]:
    """Remove the folders that `wanted` names and nobody uses."""
    taken = [kept for kept in listed(state) if wanted(kept) and _take_away(kept)]
    for path in (*_entries(state, _GONE), *filter(_is_abandoned, _entries(state, DRAFT))):
        # What cannot be removed now is left to the next pruning.
        with suppress(OSError):
            try:
                remove_tree(path)
            except PermissionError:
                remove_mapped_tree(path)
    return taken


def _is_abandoned(path: str) -> bool:
    return time.time() - os.stat(path).st_mtime > _ABANDONED_S


def _take_away(kept: Kept) -> bool:
    """Rename the folder and unlink its note under the lock; the slow part of the removal needs no lock."""
    note = kept.folder + _NOTE
    try:
        handle = os.open(note, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            os.rename(kept.folder, f"{kept.folder}.{os.urandom(4).hex()}{_GONE}")
        os.unlink(note)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
