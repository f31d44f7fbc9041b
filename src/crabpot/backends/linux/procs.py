"""What this machine's kernel says of a sandbox's first process, read from outside: nothing inside can lie about it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
STATUS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Seccomp_filters"),
)
_MAPS = ("uid_map", "gid_map")
_FIELD = re.compile("^([^:\n]*):\t(.*)$", re.MULTILINE)


def look(pid: int | None) -> dict[str, str]:
    """Return it; empty if there is no such process. The same sandbox looks the same at every opening."""
    if pid is None:
        return {}
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            said = fields(file.read())
    except OSError:
        return {}
    found = {name: " ".join(said.get(name, "").split()) for name in STATUS}
    own = own_namespaces()
    for name in NAMESPACES:
        link = _link(f"/proc/{pid}/ns/{name}")
        # Its number differs each time; what counts is whether it is the gateway's.
        found[f"{name} namespace"] = link if not link.endswith("]") else "shared" if link == own[name] else "its own"
    for name in _MAPS:
        found[name] = _text(f"/proc/{pid}/{name}")
    return found


def fields(status: str) -> dict[str, str]:
    """Return the fields of a /proc/PID/status by their names."""
    return dict(_FIELD.findall(status))


def digest(seen: Mapping[str, str]) -> str | None:
    """Return one digest of all of it, or None if nothing was seen."""
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest() if seen else None


def namespaces(pid: int) -> dict[str, str]:
    """Return which namespaces a process is in, by their kind; what cannot be seen has the reason in its place."""
    return {name: _link(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


@cache
def own_namespaces() -> dict[str, str]:
    """Return those of this process."""
    return namespaces(os.getpid())


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError as error:
        return str(error.strerror)


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return " ".join(file.read().split())
    except OSError as error:
        return str(error.strerror)
