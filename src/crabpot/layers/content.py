"""What can be said of a layer's content without reading it: whether there is any, how much, whether it was seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabpot.layers import copying, stamps, trees

if TYPE_CHECKING:
    from crabpot.layers.layer import Layer

# Touched whenever a person looked at the changes.
SEEN = "seen"


def is_empty(layer: Layer) -> bool:
    """Return whether an agent has changed nothing yet."""
    if layer.mechanism == "copy":
        return not copying.is_complete(layer) or not copying.differs(layer)
    with os.scandir(layer.content) as entries:
        return next(entries, None) is None


def is_seen(layer: Layer) -> bool:
    """Return whether a person looked at the changes after the last mount ended."""
    try:
        seen = os.stat(os.path.join(layer.path, SEEN)).st_mtime_ns
    except OSError:
        return False
    last = stamps.mounts(layer.path)[-1:]
    return all(one.closed_ns is not None and one.closed_ns <= seen for one in last)


def problem_with_size(layer: Layer, most: int) -> str | None:
    """Return why a layer holds too much, or None; costs what changed."""
    used = trees.size_of(layer.content)
    if used <= most:
        return None
    return (
        f"the layer of {layer.session} holds {used} bytes, more than limits.disk ({most}): "
        f"crabpot changes apply|discard --session {layer.session}"
    )
