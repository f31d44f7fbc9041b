"""Which path entered a layer in which mount: what the host changed since that mount began, the agent never saw.

A file's own birth does not tell: whoever saves a file by a rename gives it a new one each time. So the names in the
layer are noted after each mount, while the layer is held.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.layers import stamps
from crabpot.layers.changes.change import DEEPEST
from crabpot.layers.changes.tree import Tree, join, opened
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.layers.layer import Layer

_FILE = "entered.json"
_LARGEST = 1 << 30


class Entries:
    """When each path of a layer entered it, in nanoseconds of the realtime clock."""

    def __init__(self, known: dict[str, int], current: int) -> None:
        self._known = known
        self._current = current

    def start(self, path: str) -> int:
        """Return the start of the mount in which a path entered the layer."""
        return self._known.get(path, self._current)


def entries(layer: Layer) -> Entries:
    """Return when the paths of a layer entered it; what was not noted yet entered in a mount since the last note."""
    known, noted = _read(layer)
    return Entries(known, _since(layer, noted))


def note(layer: Layer) -> None:
    """Note the paths of a layer after a mount; call it while the layer is held and not mounted."""
    if layer.mechanism != "overlay":
        return
    known, noted = _read(layer)
    mounts = stamps.mounts(layer.path)
    if not mounts or mounts[-1].opened_ns <= noted:
        return
    start = _since(layer, noted)
    with opened(layer.content) as tree:
        found = {path: known.get(path, start) for path in _names(tree, "")}
    write_whole(os.path.join(layer.path, _FILE), json.dumps({"noted": mounts[-1].opened_ns, "entered": found}))


def _since(layer: Layer, noted: int) -> int:
    mounts = stamps.mounts(layer.path)
    later = [mount.opened_ns for mount in mounts if mount.opened_ns > noted]
    return min(later) if later else mounts[-1].opened_ns if mounts else int(layer.created * 1e9)


def _names(tree: Tree, path: str) -> Iterator[str]:
    listed = {}
    with suppress(PermissionError):
        listed = tree.entries(path)
    for name, facts in listed.items():
        inner = join(path, name)
        yield inner
        # Of a repository's own files no conflict is ever asked.
        if stat.S_ISDIR(facts.st_mode) and inner != ".git" and inner.count("/") < DEEPEST:
            yield from _names(tree, inner)


def _read(layer: Layer) -> tuple[dict[str, int], int]:
    try:
        told: dict[str, Any] = json.loads(read_regular(os.path.join(layer.path, _FILE), most=_LARGEST))
        return {str(path): int(at) for path, at in told["entered"].items()}, int(told["noted"])
    except FileNotFoundError:
        return {}, 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayerError(f"what entered the layer {layer.path} when cannot be read: {error}") from None
