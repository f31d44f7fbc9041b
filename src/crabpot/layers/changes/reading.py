"""Read the changes of a layer and judge each: held, marked, in conflict with the host, or never to arrive."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from crabpot.decide import gate
from crabpot.errors import LayerError
from crabpot.layers import copying
from crabpot.layers.changes import applied, copied, overlay
from crabpot.layers.changes.change import UNREAD, Change
from crabpot.layers.changes.entries import entries
from crabpot.layers.changes.repository import NEVER
from crabpot.layers.changes.tree import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from crabpot.layers.changes.change import Found
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.layer import Layer

    Conflict = Callable[[Found], bool]

_LARGEST_ATTRIBUTES = 1 << 20
_EXECUTABLE = 0o111
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO never arrives"),
    (stat.S_ISSOCK, "a socket never arrives"),
    (stat.S_ISBLK, "a device never arrives"),
    (stat.S_ISCHR, "a device never arrives"),
)
_SETUID = "a setuid or setgid file never arrives; run chmod ug-s on it inside"
_ELSEWHERE = "lies on another file system than the folder"


@contextmanager
def both(layer: Layer) -> Iterator[tuple[Tree, Tree]]:
    """Hold open what the agent wrote and the host's folder; LayerError if that is not the folder it was made over."""
    problem = layer.problem_with_folder()
    if problem is not None:
        raise LayerError(
            f"{problem}; nothing was changed. Put the folder back to review the changes, or forget them with "
            "`crabpot changes discard`"
        )
    try:
        with opened(layer.content) as content, opened(layer.folder) as host:
            yield content, host
    except (NotADirectoryError, FileNotFoundError) as error:
        raise LayerError(f"the layer {layer.path} was tampered with ({error.strerror}); nothing was changed") from None


def changes(layer: Layer) -> list[Change]:
    """Return the changes of a layer, in the order in which they can be applied."""
    with both(layer) as (content, host):
        return judged(layer, content, host)


def judged(layer: Layer, content: Tree, host: Tree, *, most: int | None = None) -> list[Change]:
    """Return the changes between two folders that are held open; none at all if there are `most` or more."""
    if layer.mechanism == "overlay":
        found = [*islice(overlay.differences(content, host), most)]
        conflict = _overlay_conflict(layer, content, host, found)
    else:
        began = copying.base(layer)
        found = [*islice(copied.differences(content, host, began), most)]

        def conflict(one: Found) -> bool:
            return copied.is_conflict(one.old, began.get(one.path))

    return [] if len(found) == most else [_judge(one, content, host, conflict) for one in found]


def _overlay_conflict(layer: Layer, content: Tree, host: Tree, found: Sequence[Found]) -> Conflict:
    entered, ours = entries(layer), applied.read(layer)
    orphans = {one.path for one in found if _is_orphan(one, content)}
    # In a user namespace the kernel does not tell from which file one was copied. One that the agent renamed is deleted
    # at its old name, so as many orphans as there are deletions may be renamed ones.
    gone = sum(one.new is None for one in found) + sum(one.is_removal for one in ours.values())

    def conflict(one: Found) -> bool:
        if one.old is None:
            above = host.stat(one.path.rpartition("/")[0])
            # Nothing can be deleted from a folder that did not change.
            changed = above is None or above.st_ctime_ns > entered.start(one.path)
            return one.path in orphans and len(orphans) > gone and changed
        if ours.get(one.path) == applied.stamp(one.old):
            return False
        if stat.S_ISDIR(one.old.st_mode) and (one.new is None or stat.S_ISDIR(one.new.st_mode)):
            # A folder's times change with what is in it, and each of those is judged for itself.
            return False
        return one.old.st_ctime_ns > entered.start(_entered_as(content, one))

    return conflict


def _is_orphan(one: Found, content: Tree) -> bool:
    """Return whether a file was copied from one of the host's, which is not there."""
    is_file = one.old is None and one.new is not None and stat.S_ISREG(one.new.st_mode)
    return is_file and overlay.is_copied_up(content, one.path)


def _entered_as(content: Tree, one: Found) -> str:
    """Return the path by which a change is in the layer: one below a deleted folder entered with that."""
    path = one.path
    while one.new is None and "/" in path and content.stat(path) is None:
        path = path.rpartition("/")[0]
    return path


def _judge(one: Found, content: Tree, host: Tree, conflict: Conflict) -> Change:
    held = None if one.new is None else _gate(one.path, one.new, content, host)
    mark = gate.mark(one.path)
    if one.new is None and (reason := gate.gate(one.path)):
        mark = f"deleted, though {reason}"
    elif mark is None and _became_executable(one):
        mark = gate.BECAME_EXECUTABLE
    return Change(
        path=one.path,
        new=one.new,
        old=one.old,
        gate=held,
        marked=mark,
        conflict=one.refused is None and (conflict(one) or _is_blocked(one, host)),
        refused=one.refused or _refused(one, content, host),
    )


def _gate(path: str, new: os.stat_result, content: Tree, host: Tree) -> str | None:
    reason = gate.gate(path)
    if reason is None and stat.S_ISREG(new.st_mode) and gate.folded(path)[-1] == ".gitattributes":
        reason = gate.gate_of_attributes(path, content.read(path, _LARGEST_ATTRIBUTES))
    if reason is None and stat.S_ISLNK(new.st_mode):
        target = content.target(path)
        reason = gate.gate_of_link(path, target) or _through_a_link(path, target, content, host)
    return reason


def _through_a_link(path: str, target: str, content: Tree, host: Tree) -> str | None:
    """Return why a link waits that passes another, of the host's or of the layer's, which may lead out."""
    at = path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            at = at[:-1]
        elif part not in ("", "."):
            at = [*at, part]
            for tree in (content, host):
                facts = tree.stat("/".join(at))
                if facts is not None and stat.S_ISLNK(facts.st_mode):
                    return gate.THROUGH_A_LINK
    return None


def _became_executable(one: Found) -> bool:
    if one.new is None or not stat.S_ISREG(one.new.st_mode):
        return False
    before = one.old.st_mode if one.old is not None and stat.S_ISREG(one.old.st_mode) else 0
    return bool(one.new.st_mode & ~before & _EXECUTABLE)


def _refused(one: Found, content: Tree, host: Tree) -> str | None:
    if gate.is_git(one.path):
        return NEVER
    if one.old is not None and one.old.st_dev != host.device:
        return _ELSEWHERE
    if one.new is None:
        return None
    for is_special, reason in _SPECIAL:
        if is_special(one.new.st_mode):
            return reason
    if stat.S_ISREG(one.new.st_mode):
        if one.new.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return _SETUID
        return None if _is_readable(content, one.path) else UNREAD
    return None


def _is_blocked(one: Found, host: Tree) -> bool:
    """Return whether the host has a link, or a file that the layer does not know of, on the way to a path."""
    if one.old is not None or "/" not in one.path:
        return False
    at = ""
    for part in one.path.split("/")[:-1]:
        at = f"{at}/{part}" if at else part
        facts = host.stat(at)
        if facts is None:
            return False
        if stat.S_ISLNK(facts.st_mode):
            return True
    return False


def _is_readable(content: Tree, path: str) -> bool:
    try:
        os.close(content.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True
