"""Labels that say which gateway made a container, so that leftovers of a dead one are recognised, and nothing else.

A container has the labels of its image as well, and anybody can write those. So the label of a state folder is random,
and stored in it; a container with that label but without a name of ours came from an image made of a sandbox.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.backends.linux.owner import boot, started
from crabpot.errors import SandboxUnavailable
from crabpot.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

OWNER, SCOPE, HASH, STATE = "crabpot.owner", "crabpot.scope", "crabpot.hash", "crabpot.state"

NAMES = ("crabpot-", "spare-")

_WORD = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LONGEST = 64
_OWNER = re.compile(r"([0-9]{1,10}):([0-9]{1,20}):([0-9a-f-]{1,64})", re.ASCII)


def own() -> str:
    """Name this process: its number, its start time (numbers come again) and the boot (start times come again)."""
    return f"{os.getpid()}:{started(os.getpid())}:{boot()}"


def is_alive(label: str) -> bool:
    """Return whether the process of a label still runs; a foreign label counts as alive, and is left alone."""
    match = _OWNER.fullmatch(label)
    if match is None:
        return True
    return match[3] == boot() and started(int(match[1])) == int(match[2])


def process_of(label: str) -> str:
    """Return the pid in a label, for a message."""
    return label.partition(":")[0]


def state_label(state: str) -> str:
    """Return the label of a state folder: gateways over different ones do not judge each other's containers."""
    path = f"{os.path.realpath(state)}/docker/id"
    with suppress(FileNotFoundError):
        return _read_label(path)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.urandom(8).hex()}"
    write_whole(draft, os.urandom(16).hex())
    try:
        with suppress(FileExistsError):  # Another gateway was first.
            os.link(draft, path)
    finally:
        os.unlink(draft)
    return _read_label(path)


def _read_label(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        word = file.read(_LONGEST)
    if not _WORD.fullmatch(word):
        raise SandboxUnavailable(f"{path} is not the label of this state folder: remove it, and its containers")
    return word


def is_ours(names: Iterable[str]) -> bool:
    """Return whether a container has a name that Crabpot gives."""
    return any(name.lstrip("/").startswith(NAMES) for name in names)
