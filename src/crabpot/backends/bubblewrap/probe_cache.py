"""What a probe found out, cached on disk, so that a one-shot call does not pay for it. Successes only.

The file lies in the state folder, which no sandbox can mount. It is trusted only if it is this user's,
private, whole, and about this very machine since it booted; otherwise the probe runs again.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import TYPE_CHECKING, get_args

from crabpot.backends.bubblewrap import candidates, surroundings
from crabpot.backends.bubblewrap.render import Mounting, Program
from crabpot.backends.linux import owner
from crabpot.backends.linux.kernel_files import read
from crabpot.state.files import write_whole
from crabpot.state.untrusted import open_regular, read_handle

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST = 64 * 1024
_MOUNTINGS: tuple[Mounting, ...] = get_args(Mounting)
_FACTS = ("seals", "safe_below_links", "groupless", "forks")


def key(bundle: str) -> list[str]:
    """Return all that a finding depends on: kernel, boot, switches, profiles, user, every bwrap, and our own part."""
    system = os.uname()
    about = [f"{name}={value}" for name, value in sorted(surroundings.switches().items())]
    programs = [_identity(candidate.path) for candidate in candidates.candidates()]
    return [
        system.release,
        system.version,
        system.machine,
        owner.boot(),
        str(os.geteuid()),
        # Groups are given up by a setuid helper, which works only where new privileges may be had.
        f"groups={sorted(os.getgroups())}",
        *(line for line in read("/proc/self/status").splitlines() if line.startswith("NoNewPrivs")),
        *about,
        # Whoever gives bwrap the profile that we print is to find the change at once, not after the next boot.
        f"apparmor={surroundings.policy()}",
        *programs,
        bundle,
    ]


def recall(path: str, wanted: Sequence[str]) -> candidates.Chosen | None:
    """Return what was found, if it can be trusted."""
    try:
        fd = open_regular(path)
        try:
            found = os.fstat(fd)
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
                return None
            return _parse(json.loads(read_handle(fd, path, most=_LARGEST)), wanted)
        finally:
            os.close(fd)
    except (OSError, ValueError, RecursionError):
        return None


def _parse(document: object, wanted: Sequence[str]) -> candidates.Chosen | None:
    if not isinstance(document, dict) or document.get("key") != list(wanted):
        return None
    facts = [document.get(name) for name in _FACTS]
    mounting = next((one for one in _MOUNTINGS if one == document.get("mounting")), None)
    passed_over = document.get("passed_over")
    if mounting is None or not all(type(fact) is bool for fact in facts) or not isinstance(passed_over, dict):
        return None
    reasons = {str(path): str(reason) for path, reason in passed_over.items()}
    # Named by path and looked up again: the file cannot turn something else into a program.
    for candidate in candidates.candidates():
        if candidate.path == document.get("path") and candidates.privileged(candidate.path) is None:
            kept = {name: fact is True for name, fact in zip(_FACTS, facts, strict=True)}
            program = Program(mounting=mounting, **kept)
            return candidates.Chosen(candidate=candidate, program=program, passed_over=reasons)
    return None


def keep(path: str, wanted: Sequence[str], chosen: candidates.Chosen) -> None:
    """Store it, whole or not at all."""
    facts = {name: getattr(chosen.program, name) for name in ("mounting", *_FACTS)}
    passed_over = dict(chosen.passed_over)
    document = {"key": list(wanted), "path": chosen.candidate.path, "passed_over": passed_over, **facts}
    draft = f"{os.path.dirname(path)}/{owner.label(os.urandom(4).hex())}"
    with contextlib.suppress(OSError):
        write_whole(path, json.dumps(document), draft=draft)


def forget(path: str) -> None:
    """Remove it: what was found does not hold any more."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _identity(path: str) -> str:
    found = os.stat(path)
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
    return ":".join((path, *map(str, numbers)))
