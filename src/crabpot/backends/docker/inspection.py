"""What this machine's kernel says of a container's first process: its privileges, its user, and its mounts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.backends.linux.held_files import Held

_CONFINED = {
    **{f"Cap{which}": "0000000000000000" for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
    "NoNewPrivs": "1",
    "Seccomp": "2",
}


def problems(pid: int, uid: int | None, held: Iterable[Held]) -> list[str]:
    """Return what is not as ordered. `uid` None: the engine maps users, and only root's is known to be wrong."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            said = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    except OSError as error:
        return [f"it ended: {error.strerror}"]
    wrong = [name for name, value in _CONFINED.items() if said.get(name, "").strip() != value]
    uids = set(said.get("Uid", "").split())
    if (uid is not None and uids != {str(uid)}) or "0" in uids or not uids:
        wrong.append("Uid")
    return wrong + [f"{one.path} was replaced while it was mounted" for one in held if _differs(pid, one)]


def _differs(pid: int, one: Held) -> bool:
    """Compare what was checked with what the engine mounted: it takes paths, and a path can be swapped in between."""
    try:
        found = os.stat(f"/proc/{pid}/root{one.target}", follow_symlinks=False)
    except OSError:
        return True
    return (found.st_dev, found.st_ino) != (one.device, one.inode)
