"""What apply itself wrote on the host: no conflict, for as long as nobody else changed it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.layers.layer import Layer

_FILE = "applied.json"
_LARGEST = 1 << 30


class Stamp(NamedTuple):
    """A file's inode and ctime, which nobody can set; both are 0 for one that was removed."""

    inode: int
    ctime_ns: int

    @property
    def is_removal(self) -> bool:
        """Whether the file was removed."""
        return self.inode == 0


def stamp(facts: os.stat_result | None) -> Stamp:
    """Return what tells that nobody touched a path since."""
    return Stamp(0, 0) if facts is None else Stamp(facts.st_ino, facts.st_ctime_ns)


def read(layer: Layer) -> dict[str, Stamp]:
    """Return the stamps of what was written for this layer; what cannot be read counts as nothing written."""
    try:
        told = json.loads(read_regular(os.path.join(layer.path, _FILE), most=_LARGEST))
        return {path: Stamp(int(inode), int(ctime)) for path, (inode, ctime) in told.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def add(layer: Layer, written: Mapping[str, Stamp]) -> None:
    """Add the stamps of what was written."""
    if written:
        write_whole(os.path.join(layer.path, _FILE), json.dumps(read(layer) | dict(written)))
