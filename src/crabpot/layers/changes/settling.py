"""Take out of a layer what is on the host now, so that the agent sees the host's own files again; and put it back."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crabpot.layers import copying
from crabpot.layers.changes import copied, overlay, undoing
from crabpot.layers.changes.tree import Tree, opened
from crabpot.layers.copying import Base
from crabpot.state.files import write_whole
from crabpot.state.untrusted import read_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from crabpot.layers.layer import Layer

_ENTRIES, _BASE = "layer", "base.json"
_LARGEST = 1 << 30


def settle(layer: Layer, name: str, went: Sequence[str], host: Tree) -> dict[str, Any]:
    """Take what was applied out of a layer; return what puts it back. What cannot be taken out is equal, and stays."""
    if layer.mechanism == "copy":
        return _rebase(layer, name, went, host)
    folder = os.path.join(undoing.saved(layer, name), _ENTRIES)
    os.makedirs(folder, 0o700, exist_ok=True)
    with opened(layer.content) as content, opened(folder) as aside:
        hidden = _opaque_above(content, went)
        # The deepest first, so that a folder is empty by the time it is its turn.
        for number, path in enumerate(sorted(went, key=lambda one: (-one.count("/"), one))):
            if not any(path == top or path.startswith(f"{top}/") for top in hidden):
                _move_out(content, path, aside, number)
    return {"entries": [*sorted(went, key=lambda one: (-one.count("/"), one))]}


def _opaque_above(content: Tree, went: Collection[str]) -> set[str]:
    """Return the folders of a layer that hide the host's: what is taken out of them would be gone for the agent."""
    found: set[str] = set()
    asked: set[str] = set()
    for path in went:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if folder not in asked:
                asked.add(folder)
                facts = content.stat(folder)
                if facts is not None and stat.S_ISDIR(facts.st_mode) and overlay.is_opaque(content, folder):
                    found.add(folder)
    return found


def _move_out(content: Tree, path: str, aside: Tree, number: int) -> None:
    with suppress(OSError), content.parent(path) as (folder, name):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        # A folder that still holds something stays: what is in it stayed.
        if not stat.S_ISDIR(facts.st_mode) or not content.entries(path):
            os.rename(name, str(number), src_dir_fd=folder, dst_dir_fd=aside.fd)


def unsettle(layer: Layer, manifest: dict[str, Any], reverted: set[str], host: Tree) -> None:
    """Put back into a layer what was taken out, where the apply was reverted and the agent wrote nothing since."""
    if layer.mechanism == "copy":
        now = copying.base(layer)
        for path, row in manifest.get("base", {}).items():
            if path in reverted:
                now.pop(path, None)
                now |= {path: Base(*row)} if row is not None else {}
        for path in reverted & now.keys():
            # Put back, the host's file is the same, but for its inode.
            facts = host.stat(path)
            if facts is not None:
                now[path] = now[path]._replace(inode=facts.st_ino, size=facts.st_size, mtime_ns=facts.st_mtime_ns)
        copied.write(layer, now)
        return
    folder = os.path.join(undoing.saved(layer, manifest["id"]), _ENTRIES)
    numbered = list(enumerate(manifest.get("entries", ())))
    with suppress(FileNotFoundError), opened(layer.content) as content, opened(folder) as aside:
        for number, path in reversed(numbered):
            if path in reverted:
                _move_in(content, path, aside, number)


def _move_in(content: Tree, path: str, aside: Tree, number: int) -> None:
    facts = aside.stat(str(number))
    if facts is None:
        return
    parts = path.split("/")
    for count in range(1, len(parts)):
        with suppress(OSError), content.parent("/".join(parts[:count])) as (folder, name):
            os.mkdir(name, 0o755, dir_fd=folder)
    with suppress(OSError), content.parent(path) as (folder, name):
        if content.stat(path) is None:
            os.rename(str(number), name, src_dir_fd=aside.fd, dst_dir_fd=folder)


def _rebase(layer: Layer, name: str, went: Sequence[str], host: Tree) -> dict[str, Any]:
    """Take the host as it is now for what the copy began as, at the paths that were applied."""
    now = copying.base(layer)
    before = _before(layer, name, {path: now.get(path) for path in went})
    for path in went:
        row = copied.row_of(host, path)
        now.pop(path, None)
        now |= {path: row} if row is not None else {}
    copied.write(layer, now)
    return {"base": before}


def _before(layer: Layer, name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Return what the copy began as, as it was noted before anything was changed: this may be the second attempt."""
    folder = undoing.saved(layer, name)
    os.makedirs(folder, 0o700, exist_ok=True)
    file = os.path.join(folder, _BASE)
    if not os.path.exists(file):
        write_whole(file, json.dumps(rows))
    told: dict[str, Any] = json.loads(read_regular(file, most=_LARGEST))
    return told
