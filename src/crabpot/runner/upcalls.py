"""Questions that the runner asks of the gateway, over the same stream, and the way back of their answers."""

from __future__ import annotations

from .frames import FrameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .wire import Wire

    Answered = Callable[[dict[str, Any], bytes], None]


class Upcalls:
    """Each is answered once, in whatever order."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._waiting: dict[str, Answered] = {}
        self._last = 0

    def send(self, kind: str, fields: dict[str, Any], on_reply: Answered, payload: bytes = b"") -> str:
        """Asks, and returns the id under which the answer comes."""
        self._last += 1
        up = str(self._last)
        self._wire.send({**fields, "op": "upcall", "up": up, "kind": kind}, payload)
        self._waiting[up] = on_reply
        return up

    def reply(self, header: dict[str, Any], payload: bytes) -> None:
        """Hands an answer to whoever asked."""
        up = header.get("up")
        if type(up) is not str or up not in self._waiting:
            raise FrameError("an answer to no question")
        self._waiting.pop(up)(header, payload)
