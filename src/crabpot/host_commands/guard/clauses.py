"""How this machine keeps each clause of a guard: enforced, degraded (and how), or refused."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from crabpot.backends.base import Clause
from crabpot.host_commands.guard.start import find
from crabpot.host_commands.guard.view import KEPT_BY_ROOT
from crabpot.runner.core import landlock

if TYPE_CHECKING:
    from crabpot.backends.base import State
    from crabpot.host_commands.guard.start import Bwrap

Row = tuple[str, "State", str]


def clauses(*, host_user: str | None = None) -> tuple[Clause, ...]:
    """Return the clauses that `explain` shows; where another user is configured, that user is the wall instead."""
    if host_user is not None:
        how = f"everything runs as the user {host_user}, over ssh to this machine; there is no guard"
        return (Clause(name="guard", state="enforced", how=how),)
    return tuple(Clause(name=name, state=state, how=how) for name, state, how in _rows())


@cache
def _rows() -> tuple[Row, ...]:
    found = find()
    if isinstance(found, str):
        return (("guard", "refused", found),)
    root = os.geteuid() == 0
    kept = ", ".join(name.removeprefix("CAP_") for name in KEPT_BY_ROOT)
    return (
        _files(found),
        _secrets(),
        ("guard.sockets", "enforced", "no Unix socket can be created, unless the catalogue or `credentials` names one"),
        ("guard.processes", "enforced", "pid and ipc namespaces and a /proc of its own"),
        (
            "guard.privileges",
            "enforced",
            f"no new privileges; root keeps {kept}" if root else "no new privileges, no capability, a user namespace",
        ),
        ("guard.syscalls", "enforced", "the sandbox's own list; no file becomes setuid or setgid, or another user's"),
        _landlock(),
    )


def _files(found: Bwrap) -> Row:
    how = f"read-only but for what is named, in a mount namespace of its own ({found.path})"
    if found.apart:
        return "guard.files", "enforced", how
    return "guard.files", "degraded", f"{how}; a disk that the host mounts while it runs appears there, writable"


def _secrets() -> Row:
    how = "credentials, Crabpot's own files and /run are absent"
    if landlock.version() >= landlock.OLDEST:
        return "guard.secrets", "enforced", f"{how}, including those created while it runs (Landlock)"
    return "guard.secrets", "degraded", f"{how}; without Landlock, one that is replaced while it runs is visible"


def _landlock() -> Row:
    version = landlock.version()
    if version >= landlock.WITH_SCOPES:
        return "guard.landlock", "enforced", "a second wall around files, abstract sockets and signals"
    if version >= landlock.OLDEST:
        how = "a second wall around files; before Linux 6.12, none around abstract sockets where one is named"
        return "guard.landlock", "degraded", how
    return "guard.landlock", "degraded", "this kernel has no Landlock: the mount namespace stands alone"
