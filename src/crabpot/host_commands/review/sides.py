"""Sides of a comparison that are no folder: what a layer keeps of the host's files, and of its own, as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.host_commands.review import diffing
from crabpot.layers import history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.host_commands.review.diffing import File, HostGit
    from crabpot.layers.changes.change import Change
    from crabpot.layers.changes.tree import Tree
    from crabpot.layers.history import Version
    from crabpot.layers.layer import Layer

NOTHING, KEPT, UNKNOWN = "nothing", "kept", "unknown"


async def of_conflict(layer: Layer, one: Change, content: Tree, host: Tree, by: HostGit) -> dict[str, Any]:
    """Return what the host and the agent each made of a file since the agent first saw it, as diffs.

    `base` says whether that is known: the content is kept, there was nothing, or nobody knows it any more. Then there
    are only the host's file and the agent's, which `diff` compares.
    """
    known = history.bases(layer)
    base = known.get(one.path)
    if one.path not in known or (base is not None and history.content_of(layer, base) is None):
        return {"path": one.path, "base": UNKNOWN, "host": None, "agent": None}
    made = {}
    for name, tree, facts in (("host", host, one.old), ("agent", content, one.new)):
        after = diffing.side_of(tree, [(one.path, facts)])
        diff = await diffing.diff(layer, of_versions(layer, {one.path: base}), after, by)
        made[name] = diff.decode("utf-8", "surrogateescape")
    return {"path": one.path, "base": NOTHING if base is None else KEPT, **made}


def of_versions(layer: Layer, versions: Mapping[str, Version | None]) -> Iterator[File]:
    """Yield the files that are kept of some paths."""
    for path, version in versions.items():
        data = None if version is None else history.content_of(layer, version)
        if version is not None and data is not None:
            yield diffing.File(path, version.mode, data)


def is_kept(layer: Layer, versions: Iterable[Version | None]) -> bool:
    """Return whether all of some versions can be compared."""
    return all(one is None or history.content_of(layer, one) is not None for one in versions)
