"""A connected stream to a runner, as a backend hands it over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A connected, non-blocking stream to a runner; `decode` strips an engine's own framing from what arrives.

    `ready` is the runner's answer to hello where the backend has greeted it already.
    """

    sock: socket.socket
    decode: Callable[[bytes], bytes] | None = None
    ready: dict[str, Any] | None = None
