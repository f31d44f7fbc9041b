"""The private folders that outlive their sandboxes: who they belong to, when they were used, and when they go."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.settings import Prune, Settings
    from crabpot.spec.spec import SandboxSpec

FOLDER = "sandboxes"
_NOTE = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One private folder and the note beside it, which the sandbox cannot reach."""

    name: str
    scope_key: str
    agent: str
    created: float
    used: float
    folder: str

    def is_stale(self, prune: Prune, now: float) -> bool:
        """Tell whether it was idle, or is old, beyond what the configuration keeps."""
        idle, age = now - self.used, now - self.created
        return idle > prune.idle_hours * 3600 or age > prune.max_age_days * 86400


class Hold:
    """Keeps one folder from being pruned by another process while a sandbox uses it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def release(self) -> None:
        """Let go of it; safe to call twice."""
        if self._handle >= 0:
            os.utime(self._handle)
            os.close(self._handle)
            self._handle = -1


def hold(state: str, spec: SandboxSpec, agent: str) -> Hold:
    """Note whose folder this is, and that it is in use."""
    folder = os.path.join(state, FOLDER)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    handle = os.open(os.path.join(folder, spec.name + _NOTE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_SH)
    if os.fstat(handle).st_size == 0:
        note = {"scope_key": spec.scope_key, "agent": agent, "created": time.time()}
        os.write(handle, json.dumps(note).encode())
    os.utime(handle)
    return Hold(handle)


def listed(state: str) -> Iterator[Kept]:
    """List what is kept, by name."""
    folder = os.path.join(state, FOLDER)
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        kept = _read(os.path.join(folder, entry)) if entry.endswith(_NOTE) else None
        if kept is not None:
            yield kept


def _read(path: str) -> Kept | None:
    try:
        with open(path, encoding="utf-8") as stream:
            note: dict[str, Any] = json.load(stream)
            used = os.fstat(stream.fileno()).st_mtime
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
    return remove(state, lambda kept: kept.is_stale(settings.agent(kept.agent).sandbox.prune, now))


def remove(state: str, wanted: Callable[[Kept], bool]) -> list[Kept]:
    """Remove the folders that `wanted` names and nobody uses."""
    return [kept for kept in listed(state) if wanted(kept) and _remove(kept)]


def _remove(kept: Kept) -> bool:
    note = kept.folder + _NOTE
    try:
        handle = os.open(note, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_tree(kept.folder)
        os.unlink(note)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _remove_tree(folder: str) -> None:
    """Remove what an agent left; it may have taken its own permissions away to be kept."""

    def open_up(_function: Any, path: str, _error: Any) -> None:
        parent = os.path.dirname(path)
        with suppress(OSError):
            os.chmod(parent, stat.S_IRWXU)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, stat.S_IRWXU)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)

    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=open_up)
